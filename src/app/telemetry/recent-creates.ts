/** The last creates of sandboxes, which show an operator how fast they are. */
import { AppError, type ErrorCode } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { monotonicMs } from '../../lib/clock.ts'
import type { TraceAttributes, Tracer } from '../../lib/tracer.ts'

type CreateFigures = {
  perSecond: number
  succeeded: number
  failed: number
  p50Ms: number | null
  p99Ms: number | null
}

const maxCreates = 1000
const rateMs = 60_000
const createOperation = 'sandbox.create'

/** All other codes reject a client's request, and say nothing about the machine. */
const faults: ReadonlySet<ErrorCode> = new Set(['no_space', 'unavailable', 'deadline_exceeded', 'internal'])

type Create = { at: number; ms: number; succeeded: boolean }

export class RecentCreates implements Tracer {
  readonly #tracer: Tracer
  readonly #clock: Clock
  /** In the order in which they ended. */
  #creates: Create[] = []

  constructor(tracer: Tracer, clock: Clock) {
    this.#tracer = tracer
    this.#clock = clock
  }

  async trace<T>(operation: string, attributes: TraceAttributes, work: () => Promise<T>): Promise<T> {
    if (operation !== createOperation) return this.#tracer.trace(operation, attributes, work)
    const startedAt = monotonicMs()
    try {
      const made = await this.#tracer.trace(operation, attributes, work)
      this.record(monotonicMs() - startedAt, true)
      return made
    } catch (error) {
      if (!(error instanceof AppError) || faults.has(error.code))
        this.record(monotonicMs() - startedAt, false)
      throw error
    }
  }

  record(ms: number, succeeded: boolean): void {
    this.#creates.push({ at: this.#clock.now(), ms, succeeded })
    if (this.#creates.length > 2 * maxCreates) this.#creates = this.#creates.slice(-maxCreates)
  }

  read(): CreateFigures {
    const creates = this.#creates.slice(-maxCreates)
    const since = this.#clock.now() - rateMs
    const sorted = creates
      .filter(({ succeeded }) => succeeded)
      .map(({ ms }) => ms)
      .sort((a, b) => a - b)
    const part = (share: number) =>
      sorted.length === 0
        ? null
        : Math.round(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!)
    return {
      perSecond: (1000 * creates.filter(({ at }) => at >= since).length) / rateMs,
      succeeded: sorted.length,
      failed: creates.length - sorted.length,
      p50Ms: part(0.5),
      p99Ms: part(0.99),
    }
  }
}
