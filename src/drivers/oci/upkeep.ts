/** The driver's periodic work while it is open. */
import { existsSync } from 'node:fs'
import { systemClock } from '../../lib/clock.ts'
import type { SandboxRecord } from '../host/record/records.ts'
import type { OciContext } from './context/context.ts'
import { flavourOf } from './runtime/flavours.ts'
import { writeProcFiles } from './runtime/shown-machine.ts'
import { readUse } from './stats.ts'

const firewallCheckMs = 10_000
/** Listing thousands of rules takes a tenth of a second of CPU. */
const wholeFirewallCheckMs = 60_000
const shownMachineEveryMs = 5000

type Log = (message: string, cause?: unknown) => void

/** Call the returned function to stop it. */
export function startUpkeep(context: OciContext, log: Log): () => void {
  const stops = [
    repeat(firewallCheckMs, () => checkFirewall(context, log, 'isWhole')),
    repeat(wholeFirewallCheckMs, () => checkFirewall(context, log, 'isAsApplied')),
    repeat(shownMachineEveryMs, () => refreshAll(context, log)),
  ]
  return () => {
    for (const stop of stops) stop()
  }
}

/** A program that flushes or changes the machine's ruleset also changes ours; this repairs it. */
async function checkFirewall(
  { firewall }: OciContext,
  log: Log,
  look: 'isWhole' | 'isAsApplied',
): Promise<void> {
  try {
    if (await firewall[look]()) return
    log('The firewall table of the sandboxes was not as it should be and is loaded again')
    await firewall.load()
  } catch (error) {
    log('The firewall of the sandboxes could not be checked', error)
  }
}

/** One after another: there is no hurry, and a thousand sandboxes would open a thousand files at once. */
async function refreshAll(context: OciContext, log: Log): Promise<void> {
  for (const record of context.exits.records) {
    await refreshShownMachine(context, record).catch((error) => {
      if (!context.exits.watches(record)) return
      log(`The memory figures that sandbox ${record.sandboxID} sees could not be updated`, error)
    })
  }
}

/** Writes a sandbox's present use into the files that are mounted over the host's in /proc. */
async function refreshShownMachine(context: OciContext, record: SandboxRecord): Promise<void> {
  if (flavourOf(record).showsOwnMachine) return
  const files = context.layout.shownProc(record.sandboxID)
  // A sandbox of an earlier version has them elsewhere, and keeps those it was started with.
  if (!existsSync(files)) return
  const { cpuCount, memoryMB } = record
  const use = await readUse(context, record)
  writeProcFiles(files, { ...use, cpuCount, memoryBytes: memoryMB * 1024 * 1024 })
}

function repeat(everyMs: number, work: () => Promise<void>): () => void {
  let cancel = () => {}
  let stopped = false
  const next = () => {
    cancel = systemClock.after(everyMs, async () => {
      await work()
      if (!stopped) next()
    })
  }
  next()
  return () => {
    stopped = true
    cancel()
  }
}
