/** Compares events with changes of the rows: each change that clients can see has one event, at once and in order. */
import type { Row } from './database.ts'
import { shortID } from './parked-calls.ts'
import type { WatchedSandbox } from './row-watch.ts'
import { Violation } from './violation.ts'

type Expectation = {
  types: readonly string[]
  /** A copy that failed is not told, one that succeeded is. */
  isOptional: boolean
}

export class EventWatch {
  readonly #report: (violation: Violation) => void
  /** By sandbox: what its last change must be told as. */
  readonly #expected = new Map<string, Expectation>()
  readonly #numbers = new Map<string, number>()
  readonly #ids = new Set<string>()

  constructor(report: (violation: Violation) => void) {
    this.#report = report
  }

  seeSandbox(before: WatchedSandbox | undefined, after: WatchedSandbox): void {
    this.#checkReported(after.sandboxID)
    const expectation = before && expectedOf(before, after)
    if (expectation) this.#expected.set(after.sandboxID, expectation)
  }

  seeEvent({ id, sandbox_id, number, type }: Row): void {
    const sandboxID = String(sandbox_id)
    const expectation = this.#expected.get(sandboxID)
    this.#expected.delete(sandboxID)
    if (!expectation?.types.includes(String(type))) {
      const wanted = expectation?.types.join(' or ') ?? 'nothing'
      this.#say(sandboxID, `has the event ${type}, and the change is ${wanted}`)
    }
    const last = this.#numbers.get(sandboxID) ?? 0
    this.#numbers.set(sandboxID, Number(number))
    if (number !== last + 1) this.#say(sandboxID, `has event ${number} after event ${last}`)
    if (this.#ids.has(String(id))) this.#say(sandboxID, `has the event ${id} twice`)
    this.#ids.add(String(id))
  }

  checkAtRest(): void {
    for (const sandboxID of [...this.#expected.keys()]) this.#checkReported(sandboxID)
  }

  /** The event of a change is written before anything else happens to the row. */
  #checkReported(sandboxID: string): void {
    const expectation = this.#expected.get(sandboxID)
    this.#expected.delete(sandboxID)
    if (expectation && !expectation.isOptional) {
      this.#say(sandboxID, `was never told as ${expectation.types.join(' or ')}`)
    }
  }

  #say(sandboxID: string, text: string): void {
    this.#report(new Violation('events', `${shortID(sandboxID)} ${text}`))
  }
}

const visible = ['running', 'pausing', 'paused', 'snapshotting', 'resuming']

function expectedOf(before: WatchedSandbox, after: WatchedSandbox): Expectation | undefined {
  const must = (type: string) => ({ types: [type], isOptional: false })
  const transition = `${before.state} ${after.state}`
  if (transition === 'creating running') return must('created')
  const isBack = ['running', 'snapshotting', 'pausing', 'ended'].includes(before.state)
  if (isBack && after.state === 'paused') return must('paused')
  if (transition === 'resuming running') return must('resumed')
  // A sandbox of a forgotten node ends at once.
  const hasEnd = after.state === 'killing' || after.state === 'ended'
  if (visible.includes(before.state) && hasEnd) return must('killed')
  if (transition === 'snapshotting running') return { types: ['checkpointed'], isOptional: true }
  if (transition !== 'running running') return undefined
  const isChanged =
    before.endAt !== after.endAt || JSON.stringify(before.options) !== JSON.stringify(after.options)
  // An end or a network that is set to what it was is a change as well; a saved handle is none.
  return { types: ['updated'], isOptional: !isChanged }
}
