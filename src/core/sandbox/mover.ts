/**
 * Takes over a paused sandbox of another node that is away or draining, if the object store has its snapshot. Only the
 * row moves, by compare and set: whoever has the row may start the sandbox, so there are never two of it. The bytes come
 * with its next resume. The node that had it removes its copy when it sees that the row is another's.
 */
import type { Log } from '../../lib/log.ts'
import type { ArchiveStore } from '../archive/archive-store.ts'
import type { BytesFetcher } from '../archive/bytes-fetcher.ts'

export type SandboxMoverParts = { rows: ArchiveStore; fetcher: BytesFetcher; nodeID: string; log: Log }

export class SandboxMover {
  readonly #parts: SandboxMoverParts

  constructor(parts: SandboxMoverParts) {
    this.#parts = parts
  }

  /**
   * True: the sandbox is this node's, and paused. False: it is not paused any more, or only its own node has its bytes, or
   * another took it first: look for its owner again. With `memory`, rejects with `unprocessable` when the memory in the
   * snapshot cannot be used on this machine; the sandbox then stays where it is.
   */
  async take(sandboxID: string, { memory }: { memory: boolean }): Promise<boolean> {
    const { rows, fetcher, nodeID, log } = this.#parts
    const paused = await rows.findPaused(sandboxID)
    if (!paused) return false
    if (paused.nodeID === nodeID) return true
    if (!paused.archived) return false
    if (memory && paused.archived.needs) await fetcher.requireFit(sandboxID, paused.archived.needs)
    const isMine = await rows.take(paused)
    if (isMine) log.info({ sandboxID, from: paused.nodeID }, 'A paused sandbox was taken over.')
    return isMine
  }
}
