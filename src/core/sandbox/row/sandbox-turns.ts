/**
 * Turns on sandboxes. Every change of a sandbox's row except its timeout goes through here and needs a row
 * that was read in the turn. A kill overtakes: it moves the row to `killing` from outside, aborts the holder
 * of the turn, and then takes its own turn. Inside a turn, only a kill can therefore have changed the state.
 */
import type { AppError } from '../../../lib/app-error.ts'
import { type InTurn, Turns } from '../../../lib/turns.ts'
import type { DriverHandle } from '../../ports/driver.ts'
import type { TeamLimits } from '../../team/team.ts'
import * as errors from './errors.ts'
import type { NewSandbox, Sandbox, SandboxOptions, SandboxSnapshot, SandboxState } from './sandbox.ts'
import type { ExceededLimit, IdempotencyClaim, SandboxChanges, SandboxStore } from './sandbox-store.ts'

/** A sandbox's row that was read or changed in its turn. */
export type SandboxInTurn = InTurn<Sandbox>

export class SandboxTurns extends Turns<Sandbox> {
  readonly #sandboxes: SandboxStore

  constructor(sandboxes: SandboxStore) {
    super((sandboxID) => sandboxes.find(sandboxID))
    this.#sandboxes = sandboxes
  }

  /**
   * Moves the row from its present run and state. Undefined if a kill has moved it, or, with `endAt`, if its
   * timeout has changed. Rejects if the outcome stays unknown.
   */
  async transition(
    row: SandboxInTurn,
    to: SandboxState,
    changes: SandboxChanges = {},
    fence: { endAt?: number } = {},
  ): Promise<SandboxInTurn | undefined> {
    const { sandboxID, runID, state, version } = row
    const at = { sandboxID, runID, from: [state], version, ...fence }
    const transitioned = await this.#sandboxes.transition(at, to, changes)
    return asInTurn(transitioned) ?? this.#transitionedUnseen(row, to)
  }

  /**
   * Detects a move that took effect although its answer was lost, and after which somebody changed the
   * timeout.
   */
  async #transitionedUnseen({ sandboxID, runID }: SandboxInTurn, to: SandboxState) {
    const row = await this.read(sandboxID)
    return to !== 'killing' && row?.state === to && row.runID === runID ? row : undefined
  }

  /** The error for a caller whose move came too late, because the row was changed meanwhile. */
  async overtaken({ sandboxID }: SandboxInTurn, doing: string): Promise<AppError> {
    const row = await this.read(sandboxID)
    if (!row?.endReason) return errors.changedWhile(sandboxID, doing)
    if (row.endReason === 'create_failed') return errors.createGivenUp()
    if (row.endReason === 'lost') return errors.lostWhile(sandboxID, doing)
    const isOver = row.endReason === 'timeout' && doing !== 'paused'
    return isOver ? errors.timeWasOver(sandboxID, doing) : errors.killedWhile(sandboxID, doing)
  }

  /** False also if the database does not say. */
  async isPaused({ sandboxID }: SandboxInTurn): Promise<boolean> {
    const row = await this.read(sandboxID).catch(() => undefined)
    return row?.state === 'paused'
  }

  /** Inserts the row of a sandbox whose life begins with this turn. */
  async insert(sandbox: NewSandbox, limits: TeamLimits, claim?: IdempotencyClaim) {
    const result = await this.#sandboxes.insertWithinLimits(sandbox, limits, claim)
    if (!result.inserted) return result
    const fresh = {
      transitionID: null,
      handle: null,
      snapshot: null,
      runUntil: null,
      version: 0,
      endedAt: null,
      endReason: null,
    }
    return { inserted: true as const, row: asInTurn({ ...sandbox, ...fresh, state: 'creating' as const }) }
  }

  async resumeWithinLimits(
    { sandboxID, runID, version, runUntil }: SandboxInTurn,
    limits: TeamLimits,
    changes: SandboxChanges,
  ): Promise<{ resumed: SandboxInTurn | undefined } | { exceeded: ExceededLimit }> {
    const at = { sandboxID, runID, version, ...(runUntil !== null && { markedUntil: runUntil }) }
    const result = await this.#sandboxes.resumeWithinLimits(at, limits, changes)
    return 'exceeded' in result ? result : { resumed: asInTurn(result.resumed) }
  }

  async setOptions(row: SandboxInTurn, options: SandboxOptions): Promise<SandboxInTurn | undefined> {
    return asInTurn(await this.#sandboxes.setOptions(row, options))
  }

  async setSnapshot(row: SandboxInTurn, snapshot: SandboxSnapshot): Promise<void> {
    await this.#sandboxes.setSnapshot(row, snapshot)
  }

  /** Records that all memory has arrived. False if the sandbox no longer runs. */
  async forgetArrival(row: SandboxInTurn): Promise<boolean> {
    return (await this.#sandboxes.forgetArrival(row)) !== undefined
  }

  /**
   * Lets a sandbox that a drain has paused stay paused. Undefined if it is no longer paused in this run, or
   * not by a drain.
   */
  async stayPaused(row: SandboxInTurn, snapshot: SandboxSnapshot): Promise<SandboxInTurn | undefined> {
    return asInTurn(await this.#sandboxes.stayPaused(row, snapshot))
  }

  /** Turns an ended sandbox back into a paused one. Undefined if that is no longer possible. */
  async reopen(
    { sandboxID }: SandboxInTurn,
    changes: Parameters<SandboxStore['reopen']>[1],
  ): Promise<Sandbox | undefined> {
    return this.#sandboxes.reopen(sandboxID, changes)
  }

  /** False if the run is over. */
  saveHandle({ sandboxID, runID }: SandboxInTurn, handle: DriverHandle): Promise<boolean> {
    return this.#sandboxes.saveHandle(sandboxID, runID, handle)
  }
}

function asInTurn(row: Sandbox): SandboxInTurn
function asInTurn(row: Sandbox | undefined): SandboxInTurn | undefined
function asInTurn(row: Sandbox | undefined) {
  return row as SandboxInTurn | undefined
}
