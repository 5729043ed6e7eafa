/**
 * Every call that the core makes of its store, its driver and the agent stands still here, once before it takes
 * effect and once before its answer is heard, until the scheduler lets it go on. What may go wrong with a call is
 * decided here too.
 */
import { AppError, isAppError } from '../../src/lib/app-error.ts'
import type { SimulatedTime } from './simulated-time.ts'

/** For the trace, which most runs do without: the text is made only where somebody reads it. */
export type Note = (text: () => string) => void

/** What goes wrong with one call. */
export type CallFault =
  /** It fails and has had no effect. */
  | 'fails'
  /** It takes effect, and then its answer is lost. */
  | 'answer-lost'
  /** It takes minutes, or until it is called off. */
  | 'hangs'
  /** A statement whose caller is told that it failed, and that takes effect up to 20 s later. */
  | 'lands-late'

export type ParkedCall = {
  /** Which life of a process made it. */
  process: number
  /** Not before that much time has elapsed, in milliseconds. */
  readyAt: number
  /** A statement that is on its way to the database: it may arrive although its process died. */
  isStatement: boolean
  /** The answer of a look around, which is to be old when it is heard. */
  isParked: boolean
  go: () => void
}

export type CallPolicy = {
  /**
   * Whether and how this call goes wrong. `part` is `store`, `driver`, `agent`, `objects`, `volumes`, `machine` or
   * `receiver`.
   */
  faultOf: (part: string, method: string, process: number) => CallFault | undefined
  /** No call of this process continues, as if a signal had stopped it. */
  isSuspended: (process: number) => boolean
  /** Put back in by hand: what a call that cannot be carried out answers instead of failing. */
  absence?: (method: string) => { value: unknown } | undefined
  hangMs: (part: string) => number
  /** Whether the answer of this call is held up as well: until chance lets it go, or until others have gone on. */
  holdsAnswer: (method: string, process: number) => 'a moment' | 'until it is old' | undefined
  /** Told of every call before it takes effect. */
  onCall?: (process: number, name: string, method: string, args: readonly unknown[]) => void
  /** After how many milliseconds a statement of a process that died takes effect; undefined: never. */
  lateBy: () => number | undefined
  note: Note
}

type ParkOptions = Partial<Pick<ParkedCall, 'isStatement' | 'isParked'>>

/** Nobody is there to hear the answer. */
const never = new Promise<never>(() => {})

/** Characters of the arguments of a call. */
const maxDescribed = 200

export class ParkedCalls {
  readonly #time: SimulatedTime
  readonly policy: CallPolicy
  #calls: ParkedCall[] = []
  readonly #dead = new Set<number>()

  constructor(time: SimulatedTime, policy: CallPolicy) {
    this.#time = time
    this.policy = policy
  }

  get size(): number {
    return this.#calls.length
  }

  ready(): ParkedCall[] {
    return this.#due().filter(({ isParked }) => !isParked)
  }

  /** Those whose answers are to be old. */
  parked(): ParkedCall[] {
    return this.#due().filter(({ isParked }) => isParked)
  }

  #due(): ParkedCall[] {
    const { isSuspended } = this.policy
    return this.#calls.filter(
      ({ readyAt, process }) => readyAt <= this.#time.elapsedMs && !isSuspended(process),
    )
  }

  /** When the next of those that hang may go on. */
  nextAt(): number | undefined {
    const later = this.#calls.map(({ readyAt }) => readyAt).filter((at) => at > this.#time.elapsedMs)
    return later.length > 0 ? Math.min(...later) : undefined
  }

  /** What hangs or is held may go on at once. */
  endHangs(): void {
    for (const call of this.#calls) Object.assign(call, { readyAt: 0, isParked: false })
  }

  letGo(call: ParkedCall): void {
    this.#calls = this.#calls.filter((other) => other !== call)
    call.go()
  }

  /** A process died: its calls never go on, except that statements may take effect late. True where some do. */
  drop(process: number): boolean {
    this.#dead.add(process)
    const late = this.#calls.filter((call) => {
      if (call.process !== process || !call.isStatement) return false
      const byMs = this.policy.lateBy()
      call.readyAt = Math.max(call.readyAt, this.#time.elapsedMs + (byMs ?? 0))
      return byMs !== undefined
    })
    this.#calls = this.#calls.filter((call) => call.process !== process || late.includes(call))
    return late.length > 0
  }

  /** Resolves once the scheduler lets it go on. */
  park(process: number, delayMs = 0, signal?: AbortSignal, options: ParkOptions = {}): Promise<void> {
    return new Promise((resolve) => {
      const { isStatement = false, isParked = false } = options
      const call = {
        process,
        readyAt: this.#time.elapsedMs + delayMs,
        isStatement,
        isParked,
        go: resolve,
      }
      this.#calls.push(call)
      signal?.addEventListener('abort', () => Object.assign(call, { readyAt: 0, isParked: false }))
    })
  }

  /** The middle of a call, where it may fail half-way. */
  async parkOrFail(process: number, part: string): Promise<void> {
    const fault = this.policy.faultOf(part, 'middle', process)
    await this.park(process, fault === 'hangs' ? this.policy.hangMs(part) : 0)
    if (fault !== 'fails') return
    this.policy.note(() => `the ${part} fails half-way`)
    throw passingFailure(part)
  }

  /** Wraps an object so that its asynchronous methods wait before and after they take effect. */
  wrap<T extends object>(
    process: number,
    part: string,
    name: string,
    target: T,
    immediate: readonly string[] = [],
  ): T {
    const call = (method: string, args: unknown[]) => this.#call(process, part, name, target, method, args)
    return new Proxy(target, {
      get(_, property) {
        const value = Reflect.get(target, property)
        if (typeof value !== 'function' || typeof property !== 'string') return value
        if (immediate.includes(property)) return value.bind(target)
        return (...args: unknown[]) => call(property, args)
      },
    })
  }

  async #call(process: number, part: string, name: string, target: object, method: string, args: unknown[]) {
    const { policy } = this
    const text = () => `${name}.${method}(${describeArguments(args).slice(0, maxDescribed)})`
    const fault = policy.faultOf(part, method, process)
    const signal = signalOf(args)
    const isStatement = part === 'store' && fault !== 'fails'
    policy.onCall?.(process, name, method, args)
    await this.park(process, fault === 'hangs' ? policy.hangMs(part) : 0, signal, { isStatement })
    if (fault === 'fails' || (fault === 'hangs' && part === 'agent')) {
      policy.note(() => `${text()} fails`)
      const absence = policy.absence?.(method)
      if (absence) return absence.value
      throw passingFailure(part)
    }
    const work = Reflect.get(target, method) as (...args: unknown[]) => Promise<unknown>
    if (fault === 'lands-late') {
      void this.park(process, policy.lateBy() ?? 0, undefined, { isStatement: true })
        .then(() => work.apply(target, args))
        .then(
          (value) => policy.note(() => `${text()} lands late: ${describe(value)}`),
          (error) => policy.note(() => `${text()} lands late, and rejects: ${error.message}`),
        )
      policy.note(() => `${text()} seems to fail`)
      throw passingFailure(part)
    }
    const outcome = await work.apply(target, args).then(
      (value) => ({ value }),
      (error) => ({ error }),
    )
    policy.note(
      () =>
        `${text()} ${'value' in outcome ? `= ${describe(outcome.value)}` : `rejects: ${outcome.error.message}`}`,
    )
    if (this.#dead.has(process)) await never
    const delay = policy.holdsAnswer(method, process)
    if (fault === 'answer-lost' || delay)
      await this.park(process, 0, signal, { isParked: delay === 'until it is old' })
    if (fault === 'answer-lost') {
      policy.note(() => `${text()}: the answer is lost`)
      throw passingFailure(part)
    }
    if ('error' in outcome) {
      const absence =
        part === 'driver' && isAppError(outcome.error, 'unavailable') && policy.absence?.(method)
      if (absence) return absence.value
      throw outcome.error
    }
    return outcome.value
  }
}

/** The error of a lost connection or a busy database: the same call can succeed a moment later. */
function passingFailure(part: string): AppError {
  return new AppError('unavailable', `The simulated ${part} failed for a moment; try again`, {
    retry: { should: true, afterSeconds: 1 },
  })
}

function signalOf(args: unknown[]): AbortSignal | undefined {
  for (const arg of args) {
    if (arg instanceof AbortSignal) return arg
    const inside = (arg as { signal?: unknown } | undefined)?.signal
    if (inside instanceof AbortSignal) return inside
  }
  return undefined
}

const describeArguments = (args: unknown[]): string =>
  args
    .filter((arg) => !(arg instanceof AbortSignal) && typeof arg !== 'function')
    .map(describe)
    .join(', ')

/** Short, for the trace: a row by its id and state, a handle by its sandbox, an id by its beginning. */
export function describe(value: unknown): string {
  if (typeof value === 'string') return shortID(value)
  if (typeof value !== 'object' || value === null) return String(value)
  if (Array.isArray(value)) return `[${value.map(describe).join(' ')}]`
  const { state, sandboxID, runID, data, from } = value as Record<string, unknown>
  if (typeof state === 'string' && typeof sandboxID === 'string') return `${shortID(sandboxID)} ${state}`
  if (typeof data === 'object' && data !== null)
    return `handle ${describe((data as { sandboxID: string }).sandboxID)}`
  if (typeof sandboxID === 'string') {
    return `${shortID(sandboxID)}${runID ? `/${shortID(String(runID))}` : ''}${from ? ` from ${String(from)}` : ''}`
  }
  const fields = Object.entries(value).filter(([, field]) => !(field instanceof AbortSignal))
  return `{${fields
    .slice(0, 6)
    .map(([key, field]) => `${key}: ${describe(field)}`)
    .join(', ')}}`
}

/** Shortens an id to its first characters, and both halves of a snapshot's name. */
export const shortID = (text: string): string =>
  text
    .replaceAll(/([0-9a-f]{4})[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '$1')
    .replaceAll(/\b(i[a-z0-9]{4})[a-z0-9]{16}\b/g, '$1')
