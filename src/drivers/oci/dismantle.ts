/** Takes a sandbox apart from any state it can be in, a start cut off in the middle included. Safe to repeat. */
import { readdir, readFile, rm } from 'node:fs/promises'
import { delay } from '../../lib/clock.ts'
import { killNow } from './cgroups.ts'
import type { OciContext } from './context.ts'
import { startedPid } from './runtime.ts'

export async function dismantle(context: OciContext, sandboxID: string): Promise<void> {
  const { layout, cgroups, records, slots, firewall, cpuShares } = context
  const record = await records.read(sandboxID)
  const folder = layout.sandbox(sandboxID)
  if (record) {
    if (!(await startedPid(folder))) await killStarters(folder)
    await cgroups.end(layout.cgroup(sandboxID))
    await Promise.all([
      rm(layout.runtimeState(record.slot), { recursive: true, force: true }),
      slots.remove(record.slot),
      ...(record.internet ? [] : [firewall.forget(record.address)]),
    ])
    cpuShares.release(sandboxID)
  }
  await records.remove(sandboxID)
}

/** A runtime that is still busy starting outlives its parent; its command line names the sandbox's folder. */
async function killStarters(folder: string): Promise<void> {
  for (;;) {
    const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
    const commands = await Promise.all(
      pids.map(async (pid) => ({
        pid,
        line: await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => ''),
      })),
    )
    const starters = commands.filter(({ pid, line }) => pid !== process.pid && line.includes(folder))
    if (starters.length === 0) return
    for (const { pid } of starters) killNow(pid)
    await delay(5)
  }
}
