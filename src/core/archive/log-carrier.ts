/** The newest part of a sandbox's log, as a file beside its snapshot: it is read on after the sandbox has moved. */
import type { Log } from '../../lib/log.ts'
import { type LogStore, type NumberedLogEntry, parseLogEntry } from '../ports/logs.ts'
import type { PackedFile, PackTarget } from '../ports/object-store.ts'

const fileName = 'log.jsonl'
/** Small beside any snapshot. */
const mostBytes = 1024 * 1024

export class LogCarrier {
  readonly #logs: LogStore
  readonly #log: Log

  constructor(logs: LogStore, log: Log) {
    this.#logs = logs
    this.#log = log
  }

  async pack(sandboxID: string): Promise<PackedFile[]> {
    const entries = await this.#logs.newest(sandboxID, mostBytes)
    return entries.length === 0 ? [] : [{ name: fileName, content: linesOf(entries) }]
  }

  /**
   * What is newer than what this machine has of that log already is added to it. A file that no `pack` can have written is
   * left out: the sandbox is worth more than its log.
   */
  unpack(sandboxID: string): PackTarget {
    return {
      open: (name) => (name === fileName ? (content) => this.#add(sandboxID, content) : undefined),
    }
  }

  async #add(sandboxID: string, content: AsyncIterable<Uint8Array>): Promise<void> {
    const entries = await readEntries(content)
    if (!entries) {
      this.#log.warn({ sandboxID }, 'The log that came with a sandbox is not one of Warren; it was left out.')
      return
    }
    const [last] = await this.#logs.read(sandboxID, { direction: 'backward', limit: 1 })
    await this.#logs.append(
      sandboxID,
      entries.filter(({ at }) => !last || at > last.at),
    )
  }
}

/** Undefined: these are more bytes than a log may have, or not all of them are entries. */
async function readEntries(content: AsyncIterable<Uint8Array>): Promise<NumberedLogEntry[] | undefined> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of content) {
    bytes += piece.byteLength
    if (bytes > mostBytes) return undefined
    pieces.push(piece)
  }
  const lines = Buffer.concat(pieces).toString().split('\n')
  const entries = lines.filter((line) => line !== '').map(parseLogEntry)
  return entries.every((entry) => entry !== undefined) ? entries : undefined
}

async function* linesOf(entries: readonly NumberedLogEntry[]): AsyncGenerator<Uint8Array> {
  yield Buffer.from(entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''))
}
