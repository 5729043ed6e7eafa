/** What ARG and ENV set, as far as it is known before the build. */
import { expandVariables, variablesIn } from '../variables.ts'
import type { Refuse } from './words.ts'

export class KnownValues {
  readonly #buildArgs: Readonly<Record<string, string>>
  readonly #used = new Set<string>()
  /** Values of an ARG before FROM: FROM can use them, and an ARG of the same name after it. */
  readonly #global: Record<string, string> = {}
  /** Null: it depends on what the image or the sandbox sets. */
  readonly #values = new Map<string, string | null>()
  readonly #envNames = new Set<string>()

  constructor(buildArgs: Readonly<Record<string, string>>) {
    this.#buildArgs = buildArgs
  }

  declareGlobal(name: string, fallback: string | undefined): void {
    const value =
      this.#given(name) ?? (fallback === undefined ? undefined : expandVariables(fallback, this.#global))
    if (value !== undefined) this.#global[name] = value
  }

  /** The value that an ARG has, as the server is to be told it; undefined where it has none or ENV goes before it. */
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

  /** For what must be known before the build, such as which files are copied. */
  expand(text: string, refuse: Refuse): string {
    const missing = variablesIn(text).find((name) => typeof this.#values.get(name) !== 'string')
    if (missing !== undefined) {
      refuse(`the value of $${missing} is not known before the build: write it out, or set it with ARG.`)
    }
    return expandVariables(text, this.#known())
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
    const isKnown = variablesIn(value).every((other) => typeof this.#values.get(other) === 'string')
    this.#values.set(name, isKnown ? expandVariables(value, this.#known()) : null)
  }

  #known(): Record<string, string> {
    return Object.fromEntries(
      [...this.#values].filter((entry): entry is [string, string] => entry[1] !== null),
    )
  }
}

/** For the server, which would expand it. */
export const literal = (text: string): string => text.replaceAll('$', '\\$')
