/** Takes a sandbox apart from any state it can be in, a start cut off in the middle included. Safe to repeat. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { allDone } from '../../lib/all-done.ts'
import type { OciContext } from './context.ts'
import { copyMark } from './disk-files.ts'
import { killMarked } from './processes.ts'
import { diskName } from './root-layers.ts'
import { isRestoring, startedPid, startMark } from './runtime-files.ts'

/** An abort ends the wait for processes to die; the sandbox is then still there to be dismantled again. */
export async function dismantle(context: OciContext, sandboxID: string, signal?: AbortSignal): Promise<void> {
  const { layout, cgroups, records, slots, firewall, cpuShares, exits } = context
  const record = await records.read(sandboxID)
  const folder = layout.sandbox(sandboxID)
  exits.unwatch(sandboxID)
  if (record) {
    // What a start was doing when its Warren died goes on without it.
    if (!(await startedPid(folder)) || (await isRestoring(folder))) {
      await killMarked([startMark(folder), copyMark(folder), ['-y', join(folder, diskName)]], signal)
    }
    await cgroups.end(layout.cgroup(sandboxID), signal)
    await allDone([
      removeSmall([layout.runtimeState(record.slot), layout.shownProc(sandboxID)]),
      slots.remove(record.slot),
      firewall.forget(record),
    ])
    cpuShares.release(record.runID)
  }
  await records.remove(sandboxID)
}

/** At once: these hold a few small files, and each step that waits for a thread takes longer than all of them. */
async function removeSmall(folders: readonly string[]): Promise<void> {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
}
