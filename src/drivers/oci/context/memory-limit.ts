/** The memory limit of a sandbox, its runtime included. */

import { delay } from '../../../lib/clock.ts'
import type { SandboxRecord } from '../../host/record/records.ts'
import { flavourOf } from '../runtime/flavours.ts'
import type { OciContext } from './context.ts'

/** Use must be this far below a limit before the limit is lowered to it: below use, the kernel would kill the sandbox. */
const distanceBytes = 128 * 2 ** 20
/** Time limit for lowering it. gVisor returns memory, and the disk takes what was written, a while later. */
const lowerWithinMs = 10 * 60_000
const shortestLookMs = 100
const longestLookMs = 1000

/** `moreBytes` is added to the usual limit while GPU memory lies in the sandbox's memory. Ends a `lowerMemoryLater`. */
export async function raiseMemory(
  { layout, cgroups, lowering }: OciContext,
  record: SandboxRecord,
  moreBytes = 0,
): Promise<void> {
  lowering.get(record.sandboxID)?.abort()
  const totalBytes = usualLimit(record)
  if (totalBytes === undefined) return
  await cgroups.raiseMemory(layout.cgroup(record.sandboxID), totalBytes + moreBytes)
}

/** Undefined if the limit that the sandbox started with needs no change. */
function usualLimit(record: SandboxRecord): number | undefined {
  const ownMemoryMB = flavourOf(record).ownMemoryMB(record.memoryMB)
  return ownMemoryMB === 0 ? undefined : (record.memoryMB + ownMemoryMB) * 2 ** 20
}

/**
 * Lowers the memory limit to the usual one as soon as the sandbox uses less than that, and returns at once. If that takes too
 * long, the limit stays.
 */
export function lowerMemoryLater(context: OciContext, record: SandboxRecord): void {
  const { cgroups, layout, lowering } = context
  const { sandboxID } = record
  const limit = usualLimit(record)
  if (limit === undefined) return
  const stop = new AbortController()
  lowering.get(sandboxID)?.abort()
  lowering.set(sandboxID, stop)
  const lower = async () => {
    const group = layout.cgroup(sandboxID)
    let pauseMs = shortestLookMs
    for (let waitedMs = 0; waitedMs < lowerWithinMs; waitedMs += pauseMs) {
      const { memoryUsedBytes } = await cgroups.use(group)
      if (stop.signal.aborted) return
      // The kernel drops what it has read from files, but not what it has to write to them.
      if (memoryUsedBytes + cgroups.unwrittenBytes(group) + distanceBytes < limit)
        return cgroups.lowerMemory(group, limit)
      await delay(pauseMs, stop.signal)
      pauseMs = Math.min(longestLookMs, pauseMs * 1.2)
    }
  }
  void lower()
    // The sandbox has ended, or its limit was raised again.
    .catch(() => {})
    .finally(() => {
      if (lowering.get(sandboxID) === stop) lowering.delete(sandboxID)
    })
}
