/** The end of a sandbox, whoever asks for it: its team, the end of its time, or what was found of it. */
import type { Clock } from '../../../lib/clock.ts'
import { JoinedWork } from '../../../lib/keyed-lock.ts'
import type { Log } from '../../../lib/log.ts'
import type { LogEntry } from '../../ports/logs.ts'
import type { SandboxLauncher } from '../launch/launcher.ts'
import * as errors from '../row/errors.ts'
import { endedEntry } from '../row/life-entries.ts'
import type { EndReason, Sandbox } from '../row/sandbox.ts'
import type { SandboxStore } from '../row/sandbox-store.ts'
import type { SandboxInTurn, SandboxTurns } from '../row/sandbox-turns.ts'
import type { Quarantine } from '../snapshots/quarantine.ts'
import { pauseSnapshotName } from '../snapshots/snapshot-names.ts'
import type { SnapshotStore } from '../snapshots/snapshot-store.ts'

export type EnderParts = {
  /** A kill overtakes: it alone moves rows without their turn, and only to `killing`. */
  sandboxes: Pick<SandboxStore, 'find' | 'move' | 'releaseClaim'>
  turns: SandboxTurns
  launcher: SandboxLauncher
  snapshots: SnapshotStore
  quarantine: Quarantine
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

  /**
   * Ends the sandbox whatever it is doing. Callers for the same sandbox share one ending. The reason is saved with
   * the first step, so that an ending that is cut off goes on with it.
   */
  end(sandboxID: string, reason: EndReason): Promise<void> {
    return this.#ending.run(sandboxID, async () => {
      const { sandboxes } = this.#parts
      for (let row = await sandboxes.find(sandboxID); row; row = await sandboxes.find(sandboxID)) {
        if (row.state === 'ended') return
        // From the state that was seen: whether its team hears of the end depends on it.
        const at = { sandboxID, runID: row.runID, from: [row.state] }
        const taken =
          row.state === 'killing' ? row : await sandboxes.move(at, 'killing', { endReason: reason })
        if (taken) return this.#overtake(taken)
      }
    })
  }

  /**
   * Ends the sandbox only if it is still in the run and state, and with the end of its time, that were seen. Resolves when
   * its row says that it ends, or that it does not; the rest goes on by itself, and the reconciler finishes what fails.
   */
  async beginAsSeen(seen: Sandbox, reason: EndReason): Promise<void> {
    const { sandboxes, log } = this.#parts
    const { sandboxID, runID, state, endAt } = seen
    const taken = await sandboxes.move({ sandboxID, runID, from: [state], endAt }, 'killing', {
      endReason: reason,
    })
    if (!taken) return
    void this.end(sandboxID, reason).catch((error) => {
      log.error({ sandboxID, reason, err: error }, 'An end was cut off; the reconciler finishes it.')
    })
  }

  /** Ends a sandbox by whoever has its turn. */
  async endInTurn(row: SandboxInTurn, reason: EndReason, detail?: string): Promise<void> {
    const killing =
      row.state === 'killing' ? row : await this.#parts.turns.move(row, 'killing', { endReason: reason })
    // Undefined: a kill came first, and takes its turn after this one.
    if (killing) await this.#finish(killing, detail)
  }

  /** Calls off whatever has the turn, and takes it then. */
  async #overtake(row: Sandbox): Promise<void> {
    const { launcher, turns } = this.#parts
    const { sandboxID } = row
    launcher.closeRoute(row)
    turns.cancel(sandboxID, errors.killedWhile(sandboxID, 'changed'))
    await turns.take(sandboxID, async ({ row: last }) => {
      if (last?.state === 'killing') await this.#finish(last)
    })
  }

  async #finish(row: SandboxInTurn, detail?: string): Promise<void> {
    const { sandboxes, turns, launcher, clock, appendLog, log } = this.#parts
    const { sandboxID, teamID, handle } = row
    const reason = row.endReason ?? 'killed'
    launcher.closeRoute(row)
    if (handle) await launcher.stop(handle)
    await this.#releaseSnapshots(row, reason)
    if (reason === 'create_failed') await sandboxes.releaseClaim(teamID, sandboxID)
    const changes = { endedAt: clock.now(), endReason: reason }
    const ended = await turns.move(row, 'ended', changes)
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
