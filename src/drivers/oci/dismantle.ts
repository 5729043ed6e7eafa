/** Takes a sandbox apart from any state it can be in, a start cut off in the middle included. Safe to repeat. */
import { rm } from 'node:fs/promises'
import type { OciContext } from './context.ts'
import { killProcessesNaming } from './processes.ts'
import { isRestoring, startedPid } from './runtime.ts'

/** An abort ends the wait for processes to die; the sandbox is then still there to be dismantled again. */
export async function dismantle(context: OciContext, sandboxID: string, signal?: AbortSignal): Promise<void> {
  const { layout, cgroups, records, slots, firewall, cpuShares } = context
  const record = await records.read(sandboxID)
  const folder = layout.sandbox(sandboxID)
  if (record) {
    // A runtime that is still busy starting outlives its parent.
    if (!(await startedPid(folder)) || (await isRestoring(folder))) await killProcessesNaming(folder)
    await cgroups.end(layout.cgroup(sandboxID), signal)
    await Promise.all([
      rm(layout.runtimeState(record.slot), { recursive: true, force: true }),
      slots.remove(record.slot),
      firewall.forget(record),
    ])
    cpuShares.release(sandboxID)
  }
  await records.remove(sandboxID)
}
