/**
 * Names for statements that repeat: a connection of PostgreSQL parses and plans a named statement once, which takes longer
 * than running most of them.
 */

/** A statement gets a name when it comes the third time. */
const usesBeforeName = 2
/** Every connection keeps the plans of all named statements in memory. */
const maxNames = 250
const maxCounted = 500
/** A longer statement lists rows or values, and hardly ever comes again with as many. */
const maxCharacters = 3000
/** How to find sandboxes by their metadata depends on the values: a shared plan may begin with the most frequent pair. */
const isPlannedByValues = (text: string): boolean => text.includes('"sandbox_metadata"')

export class StatementNames {
  #names = new Map<string, string>()
  readonly #uses = new Map<string, number>()
  #generation = 0

  /** Undefined: run it without a name. */
  nameOf(text: string): string | undefined {
    const name = this.#names.get(text)
    if (name !== undefined) return name
    if (text.length > maxCharacters || this.#names.size >= maxNames || isPlannedByValues(text))
      return undefined
    const uses = this.#uses.get(text) ?? 0
    this.#uses.delete(text)
    if (uses < usesBeforeName) this.#count(text, uses + 1)
    else this.#names.set(text, `warren_${this.#generation}_${this.#names.size}`)
    return this.#names.get(text)
  }

  /** Gives new names from now on: a migration has changed what a statement returns, and its old name cannot be used any more. */
  renew(): void {
    this.#generation++
    this.#names = new Map()
  }

  /** Forgets the statement that was counted first among the least recently used. */
  #count(text: string, uses: number): void {
    const [oldest] = this.#uses.keys()
    if (this.#uses.size >= maxCounted && oldest !== undefined) this.#uses.delete(oldest)
    this.#uses.set(text, uses)
  }
}
