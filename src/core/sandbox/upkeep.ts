/**
 * What Warren itself does with sandboxes: the reconciler repairs them, the guards of memory and disk pause and end them, and a node
 * that is drained moves them. Like the verbs of clients, it acts in the sandbox's turn.
 */
import type { Team } from '../team/team.ts'
import * as errors from './row/errors.ts'
import { pausedForMemoryEntry } from './row/life-entries.ts'
import type { EndReason, Sandbox } from './row/sandbox.ts'
import type { SandboxInTurn, SandboxTurns } from './row/sandbox-turns.ts'
import type { SandboxVerbParts, SandboxVerbs } from './sandbox-verbs.ts'

type SandboxUpkeepParts = Pick<SandboxVerbParts, 'sandboxes' | 'turns' | 'clock' | 'appendLog'>

export class SandboxUpkeep {
  readonly #parts: SandboxUpkeepParts
  readonly #turns: SandboxTurns
  readonly #verbs: SandboxVerbs

  constructor(parts: SandboxUpkeepParts, verbs: SandboxVerbs) {
    this.#parts = parts
    this.#turns = parts.turns
    this.#verbs = verbs
  }

  /**
   * Pauses the sandbox with its memory, if its run and its end are still those in `seen`; otherwise resolves with
   * undefined. With `departs`, the row notes from the first step on that the sandbox is to run again until that end.
   */
  pauseAsSeen(seen: Sandbox, { departs = false } = {}): Promise<Sandbox | undefined> {
    const options = { memory: true, requireHealthyAgent: true, isAutomatic: false, departs }
    return this.#turns.acquire(seen.sandboxID, async ({ row, signal }) =>
      row?.state === 'running' && row.runID === seen.runID && row.endAt === seen.endAt
        ? this.#verbs.pauser.pause(row, options, signal)
        : undefined,
    )
  }

  /**
   * Pauses a running sandbox with its memory because the machine is short of memory. Undefined: another operation has
   * the sandbox's turn. False: the sandbox does not run. Rejects at once if its memory still arrives: the object store may be
   * away, and the machine cannot wait for it.
   */
  pauseForMemory(sandboxID: string): Promise<boolean> | undefined {
    const options = { memory: true, requireHealthyAgent: false, isAutomatic: false }
    return this.#turns.acquireIfFree(sandboxID, async ({ row, signal }) => {
      if (row?.snapshot?.arrivesFrom) throw errors.memoryNotArrived(sandboxID, undefined)
      const paused = row?.state === 'running' && (await this.#verbs.pauser.pause(row, options, signal))
      if (!paused) return false
      this.#parts.appendLog(sandboxID, pausedForMemoryEntry(this.#parts.clock.now()))
      return true
    })
  }

  /** Resumes a sandbox with its memory if its pause is still the one in `seen`; otherwise resolves with undefined. */
  resumeAsSeen(seen: Sandbox, { limits }: Team, timeoutMs: number): Promise<Sandbox | undefined> {
    return this.#turns.acquire(seen.sandboxID, async ({ row, signal }) =>
      row?.state === 'paused' && row.runID === seen.runID && row.runUntil === seen.runUntil
        ? this.#verbs.resumer.resume(row, limits, { timeoutMs, memory: true }, signal)
        : undefined,
    )
  }

  /**
   * Ends a running sandbox because the machine is short of something; one whose memory still arrives is paused as it was before
   * its resume. A sandbox that does not run is not touched.
   */
  async endRunning(sandboxID: string, reason: EndReason): Promise<void> {
    const seen = await this.#parts.sandboxes.find(sandboxID)
    const isLive = (row: Sandbox) => row.state === 'running' || row.state === 'snapshotting'
    if (!seen || !isLive(seen)) return
    if (!seen.snapshot?.arrivesFrom) return this.#verbs.ender.beginAsSeen(seen, reason)
    // Whoever has the turn may wait for that memory.
    this.#turns.cancel(sandboxID, errors.memoryNotArrived(sandboxID, undefined))
    await this.#turns.acquire(sandboxID, async ({ row }) => {
      if (row?.runID !== seen.runID || !isLive(row)) return
      if (!(await this.returnToStored(row, reason))) await this.#verbs.ender.endInTurn(row, reason)
    })
  }

  /** Ends a sandbox whose turn the caller has. */
  endInTurn(row: SandboxInTurn, reason: EndReason, detail?: string): Promise<void> {
    return this.#verbs.ender.endInTurn(row, reason, detail)
  }

  /**
   * Finishes or undoes a pause or a resume that was cut off. False: neither the sandbox nor a snapshot exists any more.
   * Rejects, and leaves the row as it is, if that is not certain.
   */
  async repair(row: SandboxInTurn, signal: AbortSignal): Promise<boolean> {
    switch (row.state) {
      case 'pausing':
        return this.#verbs.pauser.repair(row)
      case 'paused':
        return this.#verbs.resumer.repairPaused(row)
      case 'resuming':
        return this.#verbs.resumer.repairResuming(row, signal)
      default:
        return false
    }
  }

  /** Lets a sandbox continue whose copy was cut off. Undefined: the sandbox is being killed. */
  repairCopied(row: SandboxInTurn): Promise<SandboxInTurn | undefined> {
    return this.#verbs.copier.repair(row)
  }

  /** True if nothing of the sandbox's memory is missing, or if somebody loads it. */
  isMemoryTracked(row: Sandbox): boolean {
    return this.#verbs.arrivals.isTracked(row)
  }

  /** Loads the missing memory of a running sandbox. */
  trackMemoryLoad(row: Sandbox): void {
    this.#verbs.arrivals.track(row)
  }

  /** Returns a sandbox that is gone to its stored snapshot. False if its memory does not arrive from there. */
  async returnToStored(row: SandboxInTurn, why: string): Promise<boolean> {
    const stored = row.snapshot?.arrivesFrom
    if (stored) await this.#verbs.arrivals.returnToStored(row, stored, why)
    return stored !== undefined
  }

  /** Sets the timer by the rows. Call it after rows may have changed without the timer, as at boot. */
  armExpiry(): Promise<void> {
    return this.#verbs.expiry.armNext()
  }
}
