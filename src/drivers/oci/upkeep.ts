/** What the driver does every few seconds for as long as it is open. */
import { systemClock } from '../../lib/clock.ts'
import type { OciContext } from './context.ts'
import { refreshShownMachine } from './refresh-shown-machine.ts'

const firewallCheckMs = 10_000
const shownMachineEveryMs = 5000

type Log = (message: string, cause?: unknown) => void

/** The function that comes back ends it. */
export function startUpkeep(context: OciContext, log: Log): () => void {
  const stops = [
    repeat(firewallCheckMs, () => checkFirewall(context, log)),
    repeat(shownMachineEveryMs, () => refreshAll(context, log)),
  ]
  return () => {
    for (const stop of stops) stop()
  }
}

/** Whoever flushes the machine's ruleset takes ours with it; it must not stay away. */
async function checkFirewall({ firewall }: OciContext, log: Log): Promise<void> {
  try {
    if (await firewall.isWhole()) return
    log('The firewall table of the sandboxes was not whole and is loaded again')
    await firewall.load()
  } catch (error) {
    log('The firewall of the sandboxes could not be checked', error)
  }
}

/** One after another: there is no hurry, and a thousand sandboxes would take a thousand files at once. */
async function refreshAll(context: OciContext, log: Log): Promise<void> {
  for (const record of context.exits.records) {
    await refreshShownMachine(context, record).catch((error) => {
      if (!context.exits.watches(record)) return
      log(`What sandbox ${record.sandboxID} sees of its memory could not be written`, error)
    })
  }
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
