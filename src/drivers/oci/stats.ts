/** What a sandbox uses now. Under runc the same figures refresh what it sees in /proc. */
import { statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { SandboxStats } from '../../core/driver.ts'
import type { OciContext } from './context.ts'
import type { SandboxRecord } from './records.ts'
import { startedPid } from './runtime.ts'
import { writeProcFiles } from './shown-machine.ts'

export async function measure({ layout, cgroups }: OciContext, record: SandboxRecord): Promise<SandboxStats> {
  const folder = layout.sandbox(record.sandboxID)
  const memoryTotalBytes = record.memoryMB * 1024 * 1024
  const use = await cgroups.use(layout.cgroup(record.sandboxID))
  const pid = await startedPid(folder)
  const disk = await statfs(`/proc/${pid}/root`)
  if (record.runtime === 'runc') {
    const { cpuCount } = record
    await writeProcFiles(join(folder, 'proc'), { ...use, cpuCount, memoryBytes: memoryTotalBytes })
  }
  return {
    ...use,
    memoryTotalBytes,
    diskUsedBytes: (disk.blocks - disk.bfree) * disk.bsize,
    diskTotalBytes: disk.blocks * disk.bsize,
  }
}
