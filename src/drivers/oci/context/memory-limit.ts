/** The memory limit of a sandbox, its runtime included. */

import type { SandboxRecord } from '../record/records.ts'
import { flavourOf } from '../runtime/flavours.ts'
import type { OciContext } from './context.ts'

/** `moreBytes` is added to the usual limit while GPU memory lies in the sandbox's memory. */
export async function raiseMemory(
  { layout, cgroups }: OciContext,
  record: SandboxRecord,
  moreBytes = 0,
): Promise<void> {
  const totalBytes = usualLimit(record)
  if (totalBytes === undefined) return
  await cgroups.raiseMemory(layout.cgroup(record.sandboxID), totalBytes + moreBytes)
}

/** Undefined if the limit that the sandbox started with needs no change. */
export function usualLimit(record: SandboxRecord): number | undefined {
  const ownMemoryMB = flavourOf(record).ownMemoryMB(record.memoryMB)
  return ownMemoryMB === 0 ? undefined : (record.memoryMB + ownMemoryMB) * 2 ** 20
}
