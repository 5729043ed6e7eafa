/**
 * Sandbox logs on disk: one file of JSON lines per sandbox, and the one before it. It knows entries, sizes and
 * ages; not who may read them.
 */
import { appendFile, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { LogEntry, LogQuery, LogStore, NumberedLogEntry } from '../core/logs.ts'
import { matches } from '../core/logs.ts'
import { KeyedLock } from '../lib/keyed-lock.ts'
import { linesBackward } from './lines-backward.ts'

export type LogFilesOptions = {
  folder: string
  /** Of one sandbox; half of it at least is always kept. */
  maxBytesPerSandbox: number
  maxBytesTotal: number
}

const newline = 0x0a
const suffix = '.jsonl'
const olderSuffix = '.older.jsonl'
/** Of all bytes allowed, so many may be written before the files are counted again. */
const uncountedShare = 1 / 32

export class LogFiles implements LogStore {
  readonly #options: LogFilesOptions
  readonly #locks = new KeyedLock()
  readonly #sizes = new Map<string, number>()
  #bytesSinceRoomMade = 0

  constructor(options: LogFilesOptions) {
    this.#options = options
  }

  append(sandboxID: string, entries: readonly NumberedLogEntry[]): Promise<void> {
    if (entries.length === 0) return Promise.resolve()
    const text = entries.map((entry) => `${JSON.stringify(entry)}\n`).join('')
    return this.#locks.run(sandboxID, async () => {
      const path = this.#path(sandboxID)
      const known = this.#sizes.get(sandboxID)
      // Forgotten until all of it is written: a part of a line must not become the start of the next.
      this.#sizes.delete(sandboxID)
      let size = known ?? (await this.#sizeOnWholeLines(path))
      if (size === 0) await mkdir(this.#options.folder, { recursive: true, mode: 0o700 })
      await appendFile(path, text, { mode: 0o600 })
      const added = Buffer.byteLength(text)
      size += added
      this.#bytesSinceRoomMade += added
      if (size > this.#options.maxBytesPerSandbox / 2) {
        await rename(path, this.#olderPath(sandboxID))
        size = 0
      }
      this.#sizes.set(sandboxID, size)
      if (this.#bytesSinceRoomMade > this.#options.maxBytesTotal * uncountedShare) await this.#makeRoom()
    })
  }

  read(sandboxID: string, query: LogQuery): Promise<LogEntry[]> {
    return this.#locks.run(sandboxID, () => this.#read(sandboxID, query))
  }

  async #read(sandboxID: string, query: LogQuery): Promise<LogEntry[]> {
    let found: LogEntry[] = []
    for await (const { sequence: _, ...entry } of this.#newestFirst(sandboxID)) {
      // Entries of several processes may be a little out of order; a minute of grace covers any of them.
      if (query.from !== undefined && entry.at < query.from - 60_000) break
      if (matches(entry, query)) found.push(entry)
      if (query.direction === 'backward' && found.length >= query.limit) break
      // Of a long log only the oldest are wanted, and they come last.
      if (found.length >= 2 * query.limit) found = found.slice(-query.limit)
    }
    return query.direction === 'backward' ? found : found.slice(-query.limit).reverse()
  }

  async lastSequence(sandboxID: string): Promise<number> {
    for await (const { sequence } of this.#newestFirst(sandboxID)) if (sequence > 0) return sequence
    return 0
  }

  async prune(before: number): Promise<void> {
    for (const file of await this.#files()) {
      if (file.mtimeMs < before) await this.#remove(file.name)
    }
    await this.#makeRoom()
  }

  /** A crash or a full disk may have left half a line: it is closed off, so that what follows can be read. */
  async #sizeOnWholeLines(path: string): Promise<number> {
    const size = await sizeOf(path)
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

  /** The longest silent files go first. */
  async #makeRoom(): Promise<void> {
    this.#bytesSinceRoomMade = 0
    const files = (await this.#files()).sort((a, b) => a.mtimeMs - b.mtimeMs)
    let total = files.reduce((sum, { size }) => sum + size, 0)
    for (const { name, size } of files) {
      if (total <= this.#options.maxBytesTotal) return
      await this.#remove(name)
      total -= size
    }
  }

  async #files(): Promise<{ name: string; size: number; mtimeMs: number }[]> {
    const { folder } = this.#options
    const names = await readdir(folder).catch(() => [])
    const found = names.filter((name) => name.endsWith(suffix))
    return Promise.all(
      found.map(async (name) => {
        const { size, mtimeMs } = await stat(join(folder, name)).catch(() => ({ size: 0, mtimeMs: 0 }))
        return { name, size, mtimeMs }
      }),
    )
  }

  async #remove(name: string): Promise<void> {
    await rm(join(this.#options.folder, name), { force: true })
    if (!name.endsWith(olderSuffix)) this.#sizes.delete(name.slice(0, -suffix.length))
  }

  #path(sandboxID: string): string {
    return join(this.#options.folder, sandboxID + suffix)
  }

  #olderPath(sandboxID: string): string {
    return join(this.#options.folder, sandboxID + olderSuffix)
  }
}

async function sizeOf(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0,
  )
}

/** A line cut off by a crash is no entry. */
function parseEntry(line: string): NumberedLogEntry | undefined {
  try {
    return JSON.parse(line) as NumberedLogEntry
  } catch {
    return undefined
  }
}
