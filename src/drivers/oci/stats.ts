/** What a sandbox uses now. Under runc the same figures refresh what it sees in /proc. */
import { statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { SandboxStats } from '../../core/driver.ts'
import type { OciContext } from './context.ts'
import type { SandboxRecord } from './records.ts'
import { writeProcFiles } from './shown-machine.ts'

export async function measure({ layout, cgroups }: OciContext, record: SandboxRecord): Promise<SandboxStats> {
  const folder = layout.sandbox(record.sandboxID)
  const memoryTotalBytes = record.memoryMB * 1024 * 1024
  const { memorySharedBytes, ...all } = await cgroups.use(layout.cgroup(record.sandboxID))
  // gVisor keeps the memory of the sandbox's processes in one shared file; the rest is its own.
  const usedBytes = record.runtime === 'runsc' ? memorySharedBytes : all.memoryUsedBytes
  const use = { ...all, memoryUsedBytes: Math.min(usedBytes, memoryTotalBytes) }
  const disk = await diskUse(await cgroups.pids(layout.cgroup(record.sandboxID)))
  if (record.runtime === 'runc') {
    const { cpuCount } = record
    await writeProcFiles(join(folder, 'proc'), { ...use, cpuCount, memoryBytes: memoryTotalBytes })
  }
  return {
    ...use,
    memoryTotalBytes,
    diskUsedBytes: disk ? (disk.blocks - disk.bfree) * disk.bsize : 0,
    diskTotalBytes: disk ? disk.blocks * disk.bsize : record.diskMB * 1024 * 1024,
  }
}

const overlayType = 0x794c7630

/** The disk is mounted only in the sandbox; one of its processes (runc's first, gVisor's gofer) has it as root. */
async function diskUse(pids: readonly number[]) {
  for (const pid of pids) {
    const found = await statfs(`/proc/${pid}/root`).catch(() => undefined)
    if (found?.type === overlayType) return found
  }
  return undefined
}
