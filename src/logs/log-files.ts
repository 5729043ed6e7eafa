/**
 * Sandbox logs on disk: the current file of JSON lines of each sandbox, and its predecessor. Knows entries,
 * sizes and ages; not who may read them.
 */
import { appendFile, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { LogEntry, LogQuery, LogStore, NumberedLogEntry } from '../core/ports/logs.ts'
import { matches } from '../core/ports/logs.ts'
import { KeyedLock } from '../lib/keyed-lock.ts'
import { ifThere } from './if-there.ts'
import { linesBackward } from './lines-backward.ts'

type LogFilesOptions = {
  folder: string
  /** Maximum size of one sandbox's log. At least the newest half of it is always retained. */
  maxBytesPerSandbox: number
  maxBytesTotal: number
}

type LogFile = { name: string; size: number; mtimeMs: number }

const newline = 0x0a
const suffix = '.jsonl'
const olderSuffix = '.older.jsonl'
/** This share of the total limit may be written before the files are counted again. */
const uncountedShare = 1 / 32
/** Number of files to stat at once: thousands would block everybody else's access to the disk. */
const lookedAtOnce = 32

export class LogFiles implements LogStore {
  readonly #options: LogFilesOptions
  readonly #locks = new KeyedLock()
  readonly #sizes = new Map<string, number>()
  #uncountedBytes = 0
  #freeing: Promise<void> | undefined

  constructor(options: LogFilesOptions) {
    this.#options = options
  }

  async append(sandboxID: string, entries: readonly NumberedLogEntry[]): Promise<void> {
    if (entries.length === 0) return
    const text = entries.map((entry) => `${JSON.stringify(entry)}\n`).join('')
    await this.#locks.run(sandboxID, () => this.#append(sandboxID, text))
    // Outside of the lock: freeing takes the locks of others, who may be waiting here too.
    if (this.#uncountedBytes > this.#options.maxBytesTotal * uncountedShare) await this.#freeSpace()
  }

  async #append(sandboxID: string, text: string): Promise<void> {
    const path = this.#path(sandboxID)
    const known = this.#sizes.get(sandboxID)
    // Dropped until everything is written: a partial line must not become the start of the next one.
    this.#sizes.delete(sandboxID)
    let size = known ?? (await this.#sizeOnWholeLines(path))
    if (size === 0) await mkdir(this.#options.folder, { recursive: true, mode: 0o700 })
    await appendFile(path, text, { mode: 0o600 })
    const added = Buffer.byteLength(text)
    size += added
    this.#uncountedBytes += added
    if (size > this.#options.maxBytesPerSandbox / 2) {
      await rename(path, this.#olderPath(sandboxID))
      size = 0
    }
    this.#sizes.set(sandboxID, size)
  }

  read(sandboxID: string, query: LogQuery): Promise<LogEntry[]> {
    return this.#locks.run(sandboxID, () => this.#read(sandboxID, query))
  }

  async #read(sandboxID: string, query: LogQuery): Promise<LogEntry[]> {
    let found: LogEntry[] = []
    for await (const { sequence: _, ...entry } of this.#newestFirst(sandboxID)) {
      // Entries of several processes may be a little out of order; a minute of tolerance covers all of them.
      if (query.from !== undefined && entry.at < query.from - 60_000) break
      if (matches(entry, query)) found.push(entry)
      if (query.direction === 'backward' && found.length >= query.limit) break
      // Only the oldest entries of a long log are wanted, and they come last.
      if (found.length >= 2 * query.limit) found = found.slice(-query.limit)
    }
    return query.direction === 'backward' ? found : found.slice(-query.limit).reverse()
  }

  newest(sandboxID: string, maxBytes: number): Promise<NumberedLogEntry[]> {
    return this.#locks.run(sandboxID, async () => {
      const found: NumberedLogEntry[] = []
      let bytes = 0
      for await (const entry of this.#newestFirst(sandboxID)) {
        bytes += Buffer.byteLength(JSON.stringify(entry)) + 1
        if (bytes > maxBytes) break
        found.push(entry)
      }
      return found.reverse()
    })
  }

  async lastSequence(sandboxID: string): Promise<number> {
    for await (const { sequence } of this.#newestFirst(sandboxID)) if (sequence > 0) return sequence
    return 0
  }

  async prune(before: number): Promise<void> {
    for (const file of await this.#files()) {
      if (file.mtimeMs < before) await this.#remove(file)
    }
    await this.#freeSpace()
  }

  /**
   * A crash or a full disk may have left half a line: this ends it, so that the following lines can be read.
   */
  async #sizeOnWholeLines(path: string): Promise<number> {
    const size = (await ifThere(stat(path)))?.size ?? 0
    if (size === 0) return 0
    const file = await open(path, 'r+')
    try {
      const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1)
      if (buffer[0] === newline) return size
      await file.write('\n', size)
      return size + 1
    } finally {
      await file.close()
    }
  }

  async *#newestFirst(sandboxID: string): AsyncGenerator<NumberedLogEntry> {
    for (const path of [this.#path(sandboxID), this.#olderPath(sandboxID)]) {
      for await (const line of linesBackward(path)) {
        const entry = parseEntry(line)
        if (entry) yield entry
      }
    }
  }

  /** Concurrent callers share the work. */
  #freeSpace(): Promise<void> {
    this.#freeing ??= this.#dropLongestSilent().finally(() => {
      this.#freeing = undefined
    })
    return this.#freeing
  }

  async #dropLongestSilent(): Promise<void> {
    this.#uncountedBytes = 0
    const files = (await this.#files()).sort((a, b) => a.mtimeMs - b.mtimeMs)
    let total = files.reduce((sum, { size }) => sum + size, 0)
    for (const file of files) {
      if (total <= this.#options.maxBytesTotal) return
      if (await this.#remove(file)) total -= file.size
    }
  }

  async #files(): Promise<LogFile[]> {
    const { folder } = this.#options
    const names = (await ifThere(readdir(folder))) ?? []
    const waiting = names.filter((name) => name.endsWith(suffix))
    const files: LogFile[] = []
    while (waiting.length > 0) {
      const looked = waiting.splice(-lookedAtOnce).map(async (name) => {
        const stats = await ifThere(stat(join(folder, name)))
        if (stats) files.push({ name, size: stats.size, mtimeMs: stats.mtimeMs })
      })
      await Promise.all(looked)
    }
    return files
  }

  /** Removes a file that was not written to since it was listed; returns false otherwise. */
  #remove({ name, mtimeMs }: LogFile): Promise<boolean> {
    const isOlder = name.endsWith(olderSuffix)
    const sandboxID = name.slice(0, -(isOlder ? olderSuffix : suffix).length)
    return this.#locks.run(sandboxID, async () => {
      const path = join(this.#options.folder, name)
      if ((await ifThere(stat(path)))?.mtimeMs !== mtimeMs) return false
      await rm(path, { force: true })
      if (!isOlder) this.#sizes.delete(sandboxID)
      return true
    })
  }

  #path(sandboxID: string): string {
    return join(this.#options.folder, sandboxID + suffix)
  }

  #olderPath(sandboxID: string): string {
    return join(this.#options.folder, sandboxID + olderSuffix)
  }
}

/** Undefined for a line that a crash cut off. */
function parseEntry(line: string): NumberedLogEntry | undefined {
  try {
    return JSON.parse(line) as NumberedLogEntry
  } catch {
    return undefined
  }
}
