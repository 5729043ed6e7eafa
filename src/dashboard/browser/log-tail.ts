/** The end of a growing log: asks for new entries by time, and drops entries that were already seen. */
import type { SandboxLogEntry } from '../../contract/rest/logs.ts'

const maxEntries = 2000

export type LogLine = SandboxLogEntry & { key: string }

export class LogTail {
  #lines: LogLine[] = []
  #lastMs = 0
  /** Entries of the last millisecond, which the next answer contains again. */
  #atLast = new Map<string, number>()

  get lines(): readonly LogLine[] {
    return this.#lines
  }

  /** The time from which the next request asks, in milliseconds. */
  get cursor(): number {
    return this.#lastMs
  }

  /** Entries in the order of their time, all from `cursor` on. True: some are new. */
  add(entries: readonly SandboxLogEntry[]): boolean {
    const again = new Map<string, number>()
    const fresh: LogLine[] = []
    for (const entry of entries) {
      const ms = Date.parse(entry.timestamp)
      if (ms < this.#lastMs) continue
      const name = `${entry.timestamp} ${entry.level} ${entry.message}`
      const times = (again.get(name) ?? 0) + 1
      again.set(name, times)
      if (times <= (this.#atLast.get(name) ?? 0)) continue
      fresh.push({ ...entry, key: `${name} ${times}` })
    }
    if (fresh.length === 0) return false
    const newest = Math.max(...fresh.map(({ timestamp }) => Date.parse(timestamp)))
    const isLast = ([name]: [string, number]) => Date.parse(name.slice(0, name.indexOf(' '))) === newest
    const seen = newest === this.#lastMs ? [...this.#atLast] : []
    this.#atLast = new Map([...seen, ...[...again].filter(isLast)])
    this.#lastMs = newest
    this.#lines = [...this.#lines, ...fresh].slice(-maxEntries)
    return true
  }
}
