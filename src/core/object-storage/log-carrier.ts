/**
 * Packs the newest part of a sandbox's log beside its snapshot, so that the log can still be read after a
 * move.
 */
import type { Log } from '../../lib/log.ts'
import { type LogStore, type NumberedLogEntry, parseLogEntry } from '../ports/logs.ts'
import type { PackedFile, PackTarget } from '../ports/object-store.ts'

const fileName = 'log.jsonl'
/** Small compared with any snapshot. */
const maxBytes = 1024 * 1024

export class LogCarrier {
  readonly #logs: LogStore
  readonly #log: Log

  constructor(logs: LogStore, log: Log) {
    this.#logs = logs
    this.#log = log
  }

  async pack(sandboxID: string): Promise<PackedFile[]> {
    const entries = await this.#logs.newest(sandboxID, maxBytes)
    return entries.length === 0 ? [] : [{ name: fileName, content: linesOf(entries) }]
  }

  /**
   * Appends the entries that are newer than the log on this machine. Skips a file that `pack` cannot have
   * written: the sandbox is worth more than its log.
   */
  unpack(sandboxID: string): PackTarget {
    return {
      open: (name) => (name === fileName ? (content) => this.#add(sandboxID, content) : undefined),
    }
  }

  async #add(sandboxID: string, content: AsyncIterable<Uint8Array>): Promise<void> {
    const entries = await readEntries(content)
    if (!entries) {
      this.#log.warn(
        { sandboxID },
        'The log file that came with a sandbox is not in the format of Warren; it was skipped.',
      )
      return
    }
    const [last] = await this.#logs.read(sandboxID, { direction: 'backward', limit: 1 })
    await this.#logs.append(
      sandboxID,
      entries.filter(({ at }) => !last || at > last.at),
    )
  }
}

/** Undefined if the content exceeds the size limit of a log, or if a line is not a log entry. */
async function readEntries(content: AsyncIterable<Uint8Array>): Promise<NumberedLogEntry[] | undefined> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of content) {
    bytes += piece.byteLength
    if (bytes > maxBytes) return undefined
    pieces.push(piece)
  }
  const lines = Buffer.concat(pieces).toString().split('\n')
  const entries = lines.filter((line) => line !== '').map(parseLogEntry)
  return entries.every((entry) => entry !== undefined) ? entries : undefined
}

async function* linesOf(entries: readonly NumberedLogEntry[]): AsyncGenerator<Uint8Array> {
  yield Buffer.from(entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''))
}
