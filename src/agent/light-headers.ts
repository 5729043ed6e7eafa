/**
 * Stands in for the global `Headers` when the agent is bundled: Node's own brings a whole HTTP client along,
 * 3 MB and 15 ms that a first command would pay. It does what the Connect library needs of it, and no more.
 */
type HeadersInput = Iterable<readonly [string, string]> | Record<string, string> | undefined

export class LightHeaders {
  #values = new Map<string, string>()

  constructor(init?: HeadersInput) {
    if (!init) return
    const entries = Symbol.iterator in init ? init : Object.entries(init)
    for (const [name, value] of entries as Iterable<readonly [string, string]>) this.append(name, value)
  }

  get(name: string): string | null {
    return this.#values.get(name.toLowerCase()) ?? null
  }

  has(name: string): boolean {
    return this.#values.has(name.toLowerCase())
  }

  set(name: string, value: string): void {
    this.#values.set(name.toLowerCase(), String(value).trim())
  }

  append(name: string, value: string): void {
    const before = this.get(name)
    this.set(name, before === null ? value : `${before}, ${String(value).trim()}`)
  }

  delete(name: string): void {
    this.#values.delete(name.toLowerCase())
  }

  forEach(visit: (value: string, name: string, headers: LightHeaders) => void): void {
    for (const [name, value] of this) visit(value, name, this)
  }

  entries(): IterableIterator<[string, string]> {
    return [...this.#values].sort(([a], [b]) => (a < b ? -1 : 1)).values()
  }

  [Symbol.iterator](): IterableIterator<[string, string]> {
    return this.entries()
  }
}

export { LightHeaders as Headers }
