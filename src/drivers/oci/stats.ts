/** Measures what a sandbox uses: CPU, memory, disk and GPUs. */
import { readFileSync, statSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { SandboxStats } from '../../core/ports/driver.ts'
import type { DiskUse, MemoryUse } from '../../core/ports/resource-use.ts'
import { AppError } from '../../lib/app-error.ts'
import { isMissing } from '../../lib/if-present.ts'
import { diskName } from '../host/disk/root-layers.ts'
import type { CgroupUse } from '../host/process/cgroups.ts'
import type { SandboxRecord } from '../host/record/records.ts'
import type { OciContext } from './context/context.ts'
import { flavourOf } from './runtime/flavours.ts'

export async function measure(context: OciContext, record: SandboxRecord): Promise<SandboxStats> {
  const { layout, cgroups } = context
  const { memorySharedBytes: _, ...use } = await readUse(context, record)
  const disk = await diskUse(await cgroups.pids(layout.cgroup(record.sandboxID)))
  const sentBytes = linkCounters().get(layout.link(record.slot))
  const gpu = record.gpus && (await context.gpus?.meter.read(record.gpus.files, record.gpus.ids))
  return {
    ...use,
    ...(gpu && { gpu }),
    ...(sentBytes !== undefined && { sentBytes }),
    memoryTotalBytes: record.memoryMB * 1024 * 1024,
    diskUsedBytes: disk ? (disk.blocks - disk.bfree) * disk.bsize : 0,
    diskTotalBytes: disk ? disk.blocks * disk.bsize : record.diskMB * 1024 * 1024,
  }
}

/** Fewer unwritten bytes than this are ignored. */
const minUnwrittenBytes = 1024 * 1024

export async function measureDisks(
  { layout, cgroups }: OciContext,
  sandboxIDs: readonly string[],
): Promise<DiskUse[]> {
  const uses = sandboxIDs.map(async (sandboxID) => {
    // Synchronous I/O: the kernel answers from memory, and a trip through the thread pool takes many times as long.
    const image = statSync(join(layout.sandbox(sandboxID), diskName), { throwIfNoEntry: false })
    if (!image) return undefined
    const allocatedBytes = image.blocks * 512
    const dirtyBytes = cgroups.unwrittenBytes(layout.cgroup(sandboxID))
    if (dirtyBytes < minUnwrittenBytes) return { sandboxID, allocatedBytes, unwrittenBytes: 0 }
    // Unwritten bytes for a volume take no space here. Bytes that the sandbox's file system holds beyond its image do.
    const disk = await diskUse(await cgroups.pids(layout.cgroup(sandboxID)))
    const usedBytes = disk ? (disk.blocks - disk.bfree) * disk.bsize : Number.POSITIVE_INFINITY
    const unwrittenBytes = Math.min(dirtyBytes, Math.max(0, usedBytes - allocatedBytes))
    return { sandboxID, allocatedBytes, unwrittenBytes }
  })
  return (await Promise.all(uses)).filter((use) => use !== undefined)
}

export function measureMemory({ layout, cgroups }: OciContext, sandboxIDs: readonly string[]): MemoryUse[] {
  return sandboxIDs.flatMap((sandboxID) => {
    const memory = cgroups.memory(layout.cgroup(sandboxID))
    return memory ? { sandboxID, usedBytes: memory.usedBytes, promisedBytes: memory.limitBytes } : []
  })
}

/** CPU and memory of a sandbox. The memory of its runtime does not count as used. */
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

/** Samples of many sandboxes at once share a reading. */
const countersAgeMs = 500
let counters: { at: number; received: Map<string, number> } | undefined

/** Bytes that this machine received over each link. A link of a sandbox is new for each run. */
function linkCounters(): ReadonlyMap<string, number> {
  const at = performance.now()
  if (counters && at - counters.at < countersAgeMs) return counters.received
  const lines = readFileSync('/proc/self/net/dev', 'utf8').matchAll(/^ *([^:\s]+): *(\d+)/gm)
  counters = { at, received: new Map([...lines].map(([, link, bytes]) => [link!, Number(bytes)])) }
  return counters.received
}

const overlayType = 0x794c7630

/** The disk is mounted only in the sandbox. One process there (runc's first, gVisor's gofer) has it as its root. */
async function diskUse(pids: readonly number[]) {
  for (const pid of pids) {
    // A process that has just ended, or whose root cannot be read, is skipped.
    const found = await statfs(`/proc/${pid}/root`).catch(() => undefined)
    if (found?.type === overlayType) return found
  }
  return undefined
}
