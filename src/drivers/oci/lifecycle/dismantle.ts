/** Ends a sandbox and removes it, from any state, including a start that was cut off. Safe to repeat. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { allDone } from '../../../lib/all-done.ts'
import { copyMark } from '../../host/disk/disk-files.ts'
import { diskName, isApart } from '../../host/disk/root-layers.ts'
import { killMarked } from '../../host/process/processes.ts'
import type { SandboxRecord } from '../../host/record/records.ts'
import { type OciContext, releaseShares } from '../context/context.ts'
import { isRestoring, startedPid, startMark } from '../runtime/runtime-files.ts'

/** An abort ends the wait for processes to die; the sandbox can then be dismantled again. */
export async function dismantle(context: OciContext, sandboxID: string, signal?: AbortSignal): Promise<void> {
  const { layout, cgroups, records, slots, exits } = context
  const record = await records.read(sandboxID)
  exits.unwatch(sandboxID)
  if (record) {
    if (!record.ended) await endRun(context, record, signal)
    await allDone([
      cgroups.remove(layout.cgroup(sandboxID)),
      removeSmall([layout.runtimeState(record.slot), layout.shownProc(sandboxID)]),
      slots.remove(record.slot),
    ])
  }
  await records.remove(sandboxID)
}

/** Ends the processes, and marks the rest for later. False if the sandbox must be dismantled now. */
export async function endForLater(
  context: OciContext,
  record: SandboxRecord,
  signal?: AbortSignal,
): Promise<boolean> {
  const { layout, records } = context
  if (record.ended || !isApart(layout.sandbox(record.sandboxID), record)) return false
  await endRun(context, record, signal)
  // A full disk accepts no mark, and the remains may be what fills it.
  return records.replace({ ...record, ended: true }).then(
    () => true,
    () => false,
  )
}

/** Resolves when no process of the sandbox runs any more and its CPUs, memory and GPUs are free for others. */
async function endRun(context: OciContext, record: SandboxRecord, signal?: AbortSignal): Promise<void> {
  const { layout, cgroups, firewall, exits, freedAddresses } = context
  const { sandboxID, runID } = record
  const folder = layout.sandbox(sandboxID)
  exits.unwatch(sandboxID)
  // The programs of a start continue when their Warren dies.
  if (!(await startedPid(folder)) || (await isRestoring(folder))) {
    await killMarked([startMark(folder), copyMark(folder), ['-y', join(folder, diskName)]], signal)
  }
  await cgroups.kill(layout.cgroup(sandboxID), signal)
  releaseShares(context, runID)
  freedAddresses.notify(record)
  await firewall.forget(record)
}

/** Synchronous: these hold a few small files, and a trip through the thread pool costs more. */
async function removeSmall(folders: readonly string[]): Promise<void> {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
}
