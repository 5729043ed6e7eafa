/** The newest part of a sandbox's log, as a file beside its snapshot: it is read on after the sandbox has moved. */
import type { LogStore, NumberedLogEntry } from '../logs.ts'
import type { PackedFile, PackTarget } from '../object-store.ts'

const fileName = 'log.jsonl'
/** Small beside any snapshot. */
const mostBytes = 1024 * 1024

export class LogCarrier {
  readonly #logs: LogStore

  constructor(logs: LogStore) {
    this.#logs = logs
  }

  async pack(sandboxID: string): Promise<PackedFile[]> {
    const entries = await this.#logs.newest(sandboxID, mostBytes)
    return entries.length === 0 ? [] : [{ name: fileName, content: linesOf(entries) }]
  }

  /** What is newer than what this machine has of that log already is added to it. */
  unpack(sandboxID: string): PackTarget {
    return {
      open: (name) => (name === fileName ? (content) => this.#add(sandboxID, content) : undefined),
    }
  }

  async #add(sandboxID: string, content: AsyncIterable<Uint8Array>): Promise<void> {
    const pieces: Uint8Array[] = []
    for await (const piece of content) pieces.push(piece)
    const lines = Buffer.concat(pieces).toString().split('\n')
    const entries = lines.filter((line) => line !== '').map((line) => JSON.parse(line) as NumberedLogEntry)
    const [last] = await this.#logs.read(sandboxID, { direction: 'backward', limit: 1 })
    await this.#logs.append(
      sandboxID,
      entries.filter(({ at }) => !last || at > last.at),
    )
  }
}

async function* linesOf(entries: readonly NumberedLogEntry[]): AsyncGenerator<Uint8Array> {
  yield Buffer.from(entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''))
}
