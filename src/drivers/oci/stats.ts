/** What a sandbox uses now. */
import { statfs } from 'node:fs/promises'
import type { SandboxStats } from '../../core/driver.ts'
import { AppError } from '../../lib/app-error.ts'
import { isMissing } from '../../lib/if-present.ts'
import type { CgroupUse } from './cgroups.ts'
import type { OciContext } from './context.ts'
import { flavourOf } from './flavours.ts'
import type { SandboxRecord } from './records.ts'

export async function measure(context: OciContext, record: SandboxRecord): Promise<SandboxStats> {
  const { layout, cgroups } = context
  const { memorySharedBytes: _, ...use } = await readUse(context, record)
  const disk = await diskUse(await cgroups.pids(layout.cgroup(record.sandboxID)))
  return {
    ...use,
    memoryTotalBytes: record.memoryMB * 1024 * 1024,
    diskUsedBytes: disk ? (disk.blocks - disk.bfree) * disk.bsize : 0,
    diskTotalBytes: disk ? disk.blocks * disk.bsize : record.diskMB * 1024 * 1024,
  }
}

/** CPU and memory, where the memory that counts as used is the sandbox's and not its runtime's. */
export async function readUse({ layout, cgroups }: OciContext, record: SandboxRecord): Promise<CgroupUse> {
  try {
    const use = await cgroups.use(layout.cgroup(record.sandboxID))
    const memoryUsedBytes = flavourOf(record).memoryUsedBytes(use)
    return { ...use, memoryUsedBytes: Math.min(memoryUsedBytes, record.memoryMB * 1024 * 1024) }
  } catch (error) {
    if (!isMissing(error)) throw error
    throw new AppError('not_found', `Sandbox ${record.sandboxID} is not there any more.`)
  }
}

const overlayType = 0x794c7630

/** The disk is mounted only in the sandbox; one of its processes (runc's first, gVisor's gofer) has it as root. */
async function diskUse(pids: readonly number[]) {
  for (const pid of pids) {
    // A process that has just ended, or whose root cannot be seen, is not the one that is looked for.
    const found = await statfs(`/proc/${pid}/root`).catch(() => undefined)
    if (found?.type === overlayType) return found
  }
  return undefined
}
