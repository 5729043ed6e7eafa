/** Counts what each process does in a while of simulated time: what fails is tried again, and never in a hot loop. */
import { shortID } from './parked-calls.ts'
import type { SimulatedTime } from './simulated-time.ts'
import { Violation } from './violation.ts'

const windowMs = 10_000
/** The same line about the same thing, and one more for each request. The fastest loop of Warren that may fail has a delay of a second. */
const maxLines = 20
/** Once the history is over and nobody asks for anything: more than twice what a busy round of all jobs takes. */
const maxCallsAtRest = 600

const requests = 'requests'

export class RateWatch {
  readonly #time: SimulatedTime
  readonly #report: (violation: Violation) => void
  #window = 0
  readonly #counts = new Map<string, number>()
  /** The history is over. */
  isAtRest = false

  constructor(time: SimulatedTime, report: (violation: Violation) => void) {
    this.#time = time
    this.#report = report
  }

  seeLine(node: string, level: string, message: string, about: string): void {
    const count = this.#count(`${node} ${message} ${about}`)
    const max = maxLines + (this.#counts.get(requests) ?? 0)
    if (count <= max) return
    const text = `${node} logs more than ${max} times in ${windowMs / 1000} s (${level}): ${message} ${shortID(about)}`
    this.#report(new Violation('rate', text))
  }

  seeRequest(): void {
    this.#count(requests)
  }

  seeCall(process: number): void {
    if (!this.isAtRest || this.#count(`process ${process}`) !== maxCallsAtRest + 1) return
    const text = `a process makes more than ${maxCallsAtRest} calls in ${windowMs / 1000} s though nobody asks for anything`
    this.#report(new Violation('rate', text))
  }

  #count(key: string): number {
    const window = Math.floor(this.#time.elapsedMs / windowMs)
    if (window !== this.#window) this.#counts.clear()
    this.#window = window
    const count = (this.#counts.get(key) ?? 0) + 1
    this.#counts.set(key, count)
    return count
  }
}
