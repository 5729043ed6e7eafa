/**
 * Sandboxes that are frozen because the machine is short of disk or memory. A freeze takes the sandbox's turn, so a kill
 * can overtake it. A frozen sandbox loses nothing, and its row stays `running`. A sandbox that is frozen for several
 * reasons continues when the last of them is over.
 */
import type { Clock } from '../../../lib/clock.ts'
import type { Log } from '../../../lib/log.ts'
import { canFreeze, type Driver } from '../../ports/driver.ts'
import type { LogEntry } from '../../ports/logs.ts'
import type { RouteTable } from '../network/routes.ts'
import { frozenEntry, goesOnEntry } from '../row/life-entries.ts'
import type { SandboxInTurn, SandboxTurns } from '../row/sandbox-turns.ts'
import type { ResourceGuard } from './guard-acts.ts'

/** A resource of which the machine has too little left. */
export type Shortage = {
  guard: ResourceGuard
  /** The answer to requests for a frozen sandbox, and the entry in its log. */
  frozenMessage: string
  /** Why a frozen sandbox continues, for its log. */
  goesOn: string
  /** Whether the shortage is so severe that a sandbox found frozen stays frozen. */
  keepsFrozen: () => boolean
}

/** A sandbox that is frozen for one shortage. */
type FrozenSandbox = { sandboxID: string; runID: string; lately: number; since: number }

type FrozenSandboxesParts = {
  driver: Driver
  turns: SandboxTurns
  routes: RouteTable
  clock: Clock
  appendLog: (sandboxID: string, entry: LogEntry) => void
  log: Log
}

/** Minimum time of a freeze, so that a sandbox that works in bursts is not frozen many times a second. */
const minFrozenMs = 3000

/** Time after which a freeze that has not finished counts as failed. */
const freezeWithinMs = 1500

type FrozenRun = { runID: string; reasons: Map<Shortage, FrozenSandbox> }

export class FrozenSandboxes {
  readonly #parts: FrozenSandboxesParts
  readonly #shortages: Shortage[] = []
  readonly #frozen = new Map<string, FrozenRun>()
  /** When the freeze, thaw or pause in progress began, by sandbox. */
  readonly #changing = new Map<string, number>()

  constructor(parts: FrozenSandboxesParts) {
    this.#parts = parts
    parts.routes.onRemove(({ sandboxID, runID }) => {
      if (this.#frozen.get(sandboxID)?.runID === runID) this.#frozen.delete(sandboxID)
    })
  }

  add(shortage: Shortage): void {
    this.#shortages.push(shortage)
  }

  /** Returns the sandboxes that are frozen for this shortage. */
  by(shortage: Shortage): FrozenSandbox[] {
    return [...this.#frozen.values()].flatMap(({ reasons }) => reasons.get(shortage) ?? [])
  }

  /** Returns all that are frozen, each once for every guard that keeps it so. */
  list(): { sandboxID: string; guard: ResourceGuard; since: number }[] {
    return this.#shortages.flatMap((shortage) =>
      this.by(shortage).map(({ sandboxID, since }) => ({ sandboxID, guard: shortage.guard, since })),
    )
  }

  has(sandboxID: string): boolean {
    return this.#frozen.has(sandboxID)
  }

  hasRun({ sandboxID, runID }: { sandboxID: string; runID: string }, shortage: Shortage): boolean {
    const frozen = this.#frozen.get(sandboxID)
    return frozen?.runID === runID && frozen.reasons.has(shortage)
  }

  /** Whether a freeze has begun a moment ago; on a busy machine it takes that long. */
  isFreezing(sandboxID: string): boolean {
    const since = this.#changing.get(sandboxID)
    return since !== undefined && this.#parts.clock.now() - since < freezeWithinMs
  }

  /** Why this run is frozen. Undefined: it is not frozen. */
  whyFrozen({ sandboxID, runID }: { sandboxID: string; runID: string }): string | undefined {
    const frozen = this.#frozen.get(sandboxID)
    return frozen?.runID === runID ? [...frozen.reasons.keys()][0]?.frozenMessage : undefined
  }

  /**
   * Whether a sandbox that was found frozen stays frozen. A restart loses the record of frozen sandboxes, so as long as
   * a shortage lasts, every sandbox that is found frozen stays frozen.
   */
  keepsFrozen({ sandboxID, runID }: SandboxInTurn): boolean {
    if (this.#frozen.get(sandboxID)?.runID === runID) return true
    const [shortage] = this.#shortages.filter(({ keepsFrozen }) => keepsFrozen())
    if (shortage) this.#note(sandboxID, runID, shortage, 0)
    return shortage !== undefined
  }

  /** Freezes the sandbox, unless another operation has its turn. */
  freeze(sandboxID: string, shortage: Shortage, lately: number, onFrozen: () => void): void {
    if (this.#frozen.get(sandboxID)?.reasons.has(shortage)) return
    this.change(sandboxID, () => this.#freeze(sandboxID, shortage, lately, onFrozen))
  }

  /** Thaws the sandbox that grew least, among those that were frozen for the minimum time and may continue. */
  letNextGoOn(
    shortage: Shortage,
    onGone: (sandboxID: string) => void,
    mayContinue: (sandboxID: string) => boolean = () => true,
  ): void {
    const now = this.#parts.clock.now()
    const longEnough = this.by(shortage).filter(
      ({ sandboxID, since }) => now - since >= minFrozenMs && mayContinue(sandboxID),
    )
    const [next] = longEnough.sort((a, b) => a.lately - b.lately)
    if (next) this.change(next.sandboxID, () => this.#goOn(next, shortage, onGone))
  }

  /** Makes one change of a sandbox at a time. If `work` returns undefined, the next look tries again. */
  change(sandboxID: string, work: () => Promise<void> | undefined): void {
    if (this.#changing.has(sandboxID)) return
    this.#changing.set(sandboxID, this.#parts.clock.now())
    const done = () => void this.#changing.delete(sandboxID)
    Promise.resolve(work()).then(done, (error) => {
      done()
      this.#parts.log.error({ sandboxID, err: error }, 'A sandbox could not be frozen, thawed or paused.')
    })
  }

  #freeze(
    sandboxID: string,
    shortage: Shortage,
    lately: number,
    onFrozen: () => void,
  ): Promise<void> | undefined {
    const { driver, turns, routes, clock, appendLog } = this.#parts
    if (!canFreeze(driver)) return undefined
    return turns.acquireIfFree(sandboxID, async ({ row, signal }) => {
      if (row?.state !== 'running' || !row.handle) return
      const { runID } = row
      const isNew = this.#frozen.get(sandboxID)?.runID !== runID
      // From now on the edge answers requests for the sandbox, which would otherwise wait.
      routes.markFrozen(sandboxID, runID, shortage.frozenMessage)
      try {
        await driver.freeze(row.handle, signal, { whileBusy: true })
      } catch (error) {
        if (isNew) routes.letGo(sandboxID, runID)
        if (signal.aborted) return
        throw error
      }
      this.#note(sandboxID, runID, shortage, lately)
      appendLog(sandboxID, frozenEntry(clock.now(), shortage.frozenMessage))
      onFrozen()
    })
  }

  #note(sandboxID: string, runID: string, shortage: Shortage, lately: number): void {
    const last = this.#frozen.get(sandboxID)
    const frozen = last?.runID === runID ? last : { runID, reasons: new Map<Shortage, FrozenSandbox>() }
    frozen.reasons.set(shortage, { sandboxID, runID, lately, since: this.#parts.clock.now() })
    this.#frozen.set(sandboxID, frozen)
    this.#parts.routes.markFrozen(sandboxID, runID, shortage.frozenMessage)
  }

  #goOn(
    { sandboxID, runID }: FrozenSandbox,
    shortage: Shortage,
    onGone: (sandboxID: string) => void,
  ): Promise<void> | undefined {
    const { driver, turns, routes, clock, appendLog } = this.#parts
    if (!canFreeze(driver)) return undefined
    return turns.acquireIfFree(sandboxID, async ({ row, signal }) => {
      const frozen = this.#frozen.get(sandboxID)
      if (frozen?.runID !== runID) return
      const [other] = [...frozen.reasons.keys()].filter((one) => one !== shortage)
      const isLive = row?.state === 'running' && row.runID === runID && row.handle
      if (isLive && !other) {
        await driver.thaw(row.handle!, signal)
        appendLog(sandboxID, goesOnEntry(clock.now(), shortage.goesOn))
      }
      frozen.reasons.delete(shortage)
      if (other) routes.markFrozen(sandboxID, runID, other.frozenMessage)
      else {
        this.#frozen.delete(sandboxID)
        routes.letGo(sandboxID, runID)
      }
      onGone(sandboxID)
    })
  }
}
