/** Ends a sandbox: on a team's request, at the end of its timeout, or because its processes are gone. */
import type { Clock } from '../../../lib/clock.ts'
import { JoinedWork } from '../../../lib/keyed-lock.ts'
import type { Log } from '../../../lib/log.ts'
import type { LogEntry } from '../../ports/logs.ts'
import type { SandboxLauncher } from '../launch/launcher.ts'
import * as errors from '../row/errors.ts'
import { endedEntry } from '../row/life-entries.ts'
import { type EndReason, isChosenEnd, type Sandbox } from '../row/sandbox.ts'
import type { SandboxStore } from '../row/sandbox-store.ts'
import type { SandboxInTurn, SandboxTurns } from '../row/sandbox-turns.ts'
import type { Quarantine } from '../snapshots/quarantine.ts'
import { pauseSnapshotName } from '../snapshots/snapshot-names.ts'
import type { SnapshotStore } from '../snapshots/snapshot-store.ts'

type EnderParts = {
  /** A kill overtakes: only it moves rows outside their turn, and only to `killing`. */
  sandboxes: Pick<SandboxStore, 'find' | 'transition' | 'releaseClaim'>
  turns: SandboxTurns
  launcher: SandboxLauncher
  snapshots: SnapshotStore
  quarantine: Quarantine
  clock: Clock
  appendLog: (sandboxID: string, entry: LogEntry) => void
  log: Log
}

export class SandboxEnder {
  readonly #parts: EnderParts
  readonly #ending = new JoinedWork<void>()

  constructor(parts: EnderParts) {
    this.#parts = parts
  }

  /**
   * Ends the sandbox whatever it is doing. Concurrent callers share one ending. The first step writes the
   * reason, so that an ending that is cut off continues with it.
   */
  end(sandboxID: string, reason: EndReason): Promise<void> {
    return this.#ending.run(sandboxID, async () => {
      const { sandboxes } = this.#parts
      for (;;) {
        const row = await sandboxes.find(sandboxID)
        // Another node has taken the sandbox since the caller saw it here: it is not ended.
        if (!row) throw new errors.SandboxNotHere(sandboxID)
        if (row.state === 'ended') return
        // Only from the state that was read, because it decides whether the team gets an event.
        const at = { sandboxID, runID: row.runID, from: [row.state] }
        const claimed =
          row.state === 'killing' ? row : await sandboxes.transition(at, 'killing', { endReason: reason })
        if (claimed) return this.#overtake(claimed)
      }
    })
  }

  /**
   * Ends the sandbox only if its run, state and timeout are still those that were seen. Resolves when the row
   * says whether it ends; the rest runs in the background, and the reconciler finishes it after a failure.
   */
  async beginAsSeen(seen: Sandbox, reason: EndReason): Promise<void> {
    const { sandboxes, log } = this.#parts
    const { sandboxID, runID, state, endAt } = seen
    const claimed = await sandboxes.transition({ sandboxID, runID, from: [state], endAt }, 'killing', {
      endReason: reason,
    })
    if (!claimed) return
    void this.end(sandboxID, reason).catch((error) => {
      log.error(
        { sandboxID, reason, err: error },
        'Ending a sandbox failed half-way; the reconciler finishes it.',
      )
    })
  }

  /** Ends a sandbox for the holder of its turn. */
  async endInTurn(row: SandboxInTurn, reason: EndReason, detail?: string): Promise<void> {
    const killing =
      row.state === 'killing'
        ? row
        : await this.#parts.turns.transition(row, 'killing', { endReason: reason })
    // Undefined if a kill came first, which takes its turn after this one.
    if (killing) await this.#finish(killing, detail)
  }

  /** Aborts the holder of the turn, then takes the turn. */
  async #overtake(row: Sandbox): Promise<void> {
    const { launcher, turns } = this.#parts
    const { sandboxID } = row
    launcher.closeRoute(row)
    turns.cancel(sandboxID, errors.killedWhile(sandboxID, 'changed'))
    await turns.acquire(sandboxID, async ({ row: last }) => {
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
    const ended = await turns.transition(row, 'ended', changes)
    if (!ended) return
    appendLog(sandboxID, endedEntry(changes.endedAt, reason, detail))
    log.info({ sandboxID, reason, ...(detail !== undefined && { detail }) }, 'sandbox ended')
  }

  async #releaseSnapshots(row: Sandbox, reason: EndReason): Promise<void> {
    const { snapshots, quarantine } = this.#parts
    const names = new Set([pauseSnapshotName(row), ...(row.snapshot ? [row.snapshot.name] : [])])
    if (isChosenEnd(reason)) {
      for (const name of names) await snapshots.remove(name)
      return
    }
    const there = await snapshots.names()
    if (row.snapshot?.arrivesFrom) {
      // It is not complete.
      await snapshots.remove(row.snapshot.name)
      names.delete(row.snapshot.name)
    }
    for (const name of there.filter((one) => names.has(one))) {
      await quarantine.add(name, `Its sandbox ended (${reason}) although nobody had asked for it.`)
    }
  }
}
