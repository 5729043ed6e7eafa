/** The variables that ARG and ENV set, as far as their values are known before the build. */
import { AppError } from '../app-error.ts'
import { expandVariables, largestEnvironment, variablesIn } from '../variables.ts'
import type { Refuse } from './words.ts'

/** In characters. No path on Linux is longer. */
const longestPath = 4096

/** Without a prototype, so that a variable may be named __proto__. */
const noVariables = (): Record<string, string> => Object.create(null)

export class KnownValues {
  readonly #buildArgs: Readonly<Record<string, string>>
  readonly #used = new Set<string>()
  /** Values of an ARG before FROM: FROM can use them, and an ARG of the same name after it. */
  readonly #global = noVariables()
  /** Known values. Those that depend on variables of the image or the sandbox are missing. */
  readonly #known = noVariables()
  /** The total length of all values that were ever set. */
  #length = 0
  readonly #envNames = new Set<string>()

  constructor(buildArgs: Readonly<Record<string, string>>) {
    this.#buildArgs = buildArgs
  }

  declareGlobal(name: string, fallback: string | undefined): void {
    const value =
      this.#given(name) ?? (fallback === undefined ? undefined : expandVariables(fallback, this.#global))
    if (value === undefined) return
    this.#count(value)
    this.#global[name] = value
  }

  /** The value of an ARG in the form for the server; undefined if it has none, or if ENV overrides it. */
  declare(name: string, fallback: string | undefined): string | undefined {
    const given = this.#given(name)
    const global = Object.hasOwn(this.#global, name) ? this.#global[name] : undefined
    const value = given !== undefined ? literal(given) : (fallback ?? (global && literal(global)))
    if (value === undefined || this.#envNames.has(name)) return undefined
    this.#set(name, value)
    return value
  }

  setEnv(name: string, value: string): void {
    this.#envNames.add(name)
    this.#set(name, value)
  }

  inFrom(text: string): string {
    return expandVariables(text, this.#global)
  }

  /** Expands a text that must be known before the build, such as the sources of a COPY. */
  expand(text: string, refuse: Refuse): string {
    const missing = variablesIn(text).find((name) => !Object.hasOwn(this.#known, name))
    if (missing !== undefined) {
      refuse(`the value of $${missing} is not known before the build: write it out, or set it with ARG.`)
    }
    const expanded = expandVariables(text, this.#known)
    if (expanded.length > longestPath)
      refuse(`variables make the text longer than ${longestPath} characters.`)
    return expanded
  }

  unusedBuildArgs(): string[] {
    return Object.keys(this.#buildArgs).filter((name) => !this.#used.has(name))
  }

  #given(name: string): string | undefined {
    if (!Object.hasOwn(this.#buildArgs, name)) return undefined
    this.#used.add(name)
    return this.#buildArgs[name]
  }

  #set(name: string, value: string): void {
    const isKnown = variablesIn(value).every((other) => Object.hasOwn(this.#known, other))
    if (!isKnown) {
      delete this.#known[name]
      return
    }
    const expanded = expandVariables(value, this.#known)
    this.#count(expanded)
    this.#known[name] = expanded
  }

  #count(value: string): void {
    this.#length += value.length
    if (this.#length <= largestEnvironment) return
    const message = `all variables together have more than ${largestEnvironment} characters: shorten their values`
    throw new AppError('invalid_argument', message)
  }
}

/** Escapes a text for the server, which would expand it. */
export const literal = (text: string): string => text.replaceAll('$', '\\$')
