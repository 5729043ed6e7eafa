/** The end of a sandbox, whoever asks for it: its team, the end of its time, or what was found of it. */
import type { Clock } from '../../lib/clock.ts'
import { JoinedWork } from '../../lib/keyed-lock.ts'
import type { Log } from '../../lib/log.ts'
import type { LogEntry } from '../logs.ts'
import type { SandboxStore } from '../stores.ts'
import * as errors from './errors.ts'
import type { SandboxLauncher } from './launcher.ts'
import { endedEntry } from './life-entries.ts'
import type { OngoingWork } from './ongoing-work.ts'
import type { Quarantine } from './quarantine.ts'
import type { EndReason, Sandbox } from './sandbox.ts'
import { pauseSnapshotName } from './snapshot-names.ts'
import type { SnapshotStore } from './snapshot-store.ts'

export type EnderParts = {
  sandboxes: SandboxStore
  launcher: SandboxLauncher
  snapshots: SnapshotStore
  quarantine: Quarantine
  ongoing: OngoingWork
  clock: Clock
  appendLog: (sandboxID: string, entry: LogEntry) => void
  log: Log
}

/** Ends that somebody chose, so that nobody wants the snapshot back. */
const chosen: readonly EndReason[] = ['killed', 'timeout', 'create_failed']

export class SandboxEnder {
  readonly #parts: EnderParts
  readonly #ending = new JoinedWork<void>()

  constructor(parts: EnderParts) {
    this.#parts = parts
  }

  isEnding(sandboxID: string): boolean {
    return this.#ending.get(sandboxID) !== undefined
  }

  /**
   * Ends the sandbox whatever it is doing. Callers for the same sandbox share one ending. The reason is saved with
   * the first step, so that an ending that is cut off goes on with it.
   */
  end(sandboxID: string, reason: EndReason, detail?: string): Promise<void> {
    return this.#ending.run(sandboxID, async () => {
      const { sandboxes } = this.#parts
      for (let row = await sandboxes.find(sandboxID); row; row = await sandboxes.find(sandboxID)) {
        if (row.state === 'ended') return
        if (row.state === 'killing') return this.#finish(row, row.endReason ?? reason, detail)
        // From the state that was seen: whether its team hears of the end depends on it.
        const at = { sandboxID, runID: row.runID, from: [row.state] }
        const taken = await sandboxes.move(at, 'killing', { endReason: reason })
        if (taken) return this.#finish(taken, reason, detail)
      }
    })
  }

  /** Ends the sandbox only if it is still in the run and state, and with the end of its time, that were seen. */
  async endAsSeen(seen: Sandbox, reason: EndReason, detail?: string): Promise<void> {
    const { sandboxID, runID, state, endAt } = seen
    const at = { sandboxID, runID, from: [state], endAt }
    const taken =
      state === 'killing' ? seen : await this.#parts.sandboxes.move(at, 'killing', { endReason: reason })
    if (taken) await this.end(sandboxID, reason, detail)
  }

  async #finish(row: Sandbox, reason: EndReason, detail: string | undefined): Promise<void> {
    const { sandboxes, launcher, ongoing, clock, appendLog, log } = this.#parts
    const { sandboxID, runID } = row
    launcher.closeRoute(row)
    await ongoing.cancel(sandboxID, errors.killedWhile(sandboxID, 'changed'))
    const last = (await sandboxes.find(sandboxID)) ?? row
    if (last.handle) await launcher.stop(last.handle)
    await this.#releaseSnapshots(last, reason)
    if (reason === 'create_failed') await sandboxes.releaseClaim(row.teamID, sandboxID)
    const changes = { endedAt: clock.now(), endReason: reason }
    const ended = await sandboxes.move({ sandboxID, runID, from: ['killing'] }, 'ended', changes)
    if (!ended) return
    appendLog(sandboxID, endedEntry(changes.endedAt, reason, detail))
    log.info({ sandboxID, reason, ...(detail !== undefined && { detail }) }, 'sandbox ended')
  }

  async #releaseSnapshots(row: Sandbox, reason: EndReason): Promise<void> {
    const { snapshots, quarantine } = this.#parts
    const names = new Set([pauseSnapshotName(row), ...(row.snapshot ? [row.snapshot.name] : [])])
    if (chosen.includes(reason)) {
      for (const name of names) await snapshots.remove(name)
      return
    }
    const there = await snapshots.names()
    for (const name of there.filter((one) => names.has(one))) {
      await quarantine.add(name, `Its sandbox ended (${reason}) although nobody had asked for it.`)
    }
  }
}
