/**
 * Takes over a paused sandbox of another node that is away or draining, if the object store has its snapshot. Only the
 * row moves, by compare and set: whoever has the row may start the sandbox, so there are never two of it. The bytes come
 * with its next resume, under a name that is new with each owner: what a disk has from an earlier time is never taken for
 * them. The node that had it removes its copy when it sees that the row is another's.
 */
import type { Log } from '../../lib/log.ts'
import { newTakenSnapshotName } from '../sandbox/snapshots/snapshot-names.ts'
import type { ArchiveStore } from './archive-store.ts'
import type { BytesFetcher } from './bytes-fetcher.ts'

export type SandboxMoverParts = {
  rows: Pick<ArchiveStore, 'findPaused' | 'take'>
  fetcher: Pick<BytesFetcher, 'requireFit'>
  nodeID: string
  log: Log
}

export type TakeOptions = {
  /** Its memory is wanted. */
  memory: boolean
  /** The node that it is taken from, which was seen to be away or has offered it. */
  from: string
}

export class SandboxMover {
  readonly #parts: SandboxMoverParts

  constructor(parts: SandboxMoverParts) {
    this.#parts = parts
  }

  /**
   * True: the sandbox is this node's, and paused. False: it is not paused any more, or no other node can run it, or
   * another took it first: look for its owner again. With `memory`, rejects with `unprocessable` when the memory in the
   * snapshot cannot be used on this machine; the sandbox then stays where it is.
   */
  async take(sandboxID: string, { memory, from }: TakeOptions): Promise<boolean> {
    const { rows, fetcher, nodeID, log } = this.#parts
    const paused = await rows.findPaused(sandboxID)
    if (!paused) return false
    if (paused.nodeID === nodeID) return true
    if (!paused.archived || paused.nodeID !== from) return false
    if (memory && paused.archived.needs) await fetcher.requireFit(sandboxID, paused.archived.needs)
    const isMine = await rows.take(paused, newTakenSnapshotName(paused))
    if (isMine) log.info({ sandboxID, from: paused.nodeID }, 'A paused sandbox was taken over.')
    return isMine
  }
}
