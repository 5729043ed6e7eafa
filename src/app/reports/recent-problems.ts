/** Remembers the last warnings and errors of the log, for the operator's dashboard. */
import { errorText } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'

type RecentProblem = {
  at: number
  level: 'warn' | 'error'
  message: string
  cause: string | null
  count: number
}

const maxProblems = 50
/** The text may contain data from a sandbox. */
const maxText = 1000

export class RecentProblems implements Log {
  readonly #log: Log
  readonly #clock: Clock
  #problems: RecentProblem[] = []

  constructor(log: Log, clock: Clock) {
    this.#log = log
    this.#clock = clock
  }

  /** Newest first. */
  list(): readonly RecentProblem[] {
    return this.#problems
  }

  debug(values: object, message: string): void {
    this.#log.debug(values, message)
  }

  info(values: object, message: string): void {
    this.#log.info(values, message)
  }

  warn(values: object, message: string): void {
    this.#remember('warn', values, message)
    this.#log.warn(values, message)
  }

  error(values: object, message: string): void {
    this.#remember('error', values, message)
    this.#log.error(values, message)
  }

  #remember(level: RecentProblem['level'], values: object, text: string): void {
    const at = this.#clock.now()
    const { err } = values as { err?: unknown }
    const message = text.slice(0, maxText)
    const cause = err === undefined ? null : errorText(err).slice(0, maxText)
    const last = this.#problems[0]
    if (last?.message === message && last.cause === cause && last.level === level) {
      last.count++
      last.at = at
      return
    }
    this.#problems = [{ at, level, message, cause, count: 1 }, ...this.#problems].slice(0, maxProblems)
  }
}
