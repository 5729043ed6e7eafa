/**
 * Takes over a paused sandbox from a node that is away or draining, if the object store has its snapshot.
 * Only the row moves, by compare and set: the node that has the row may start the sandbox, so it never runs
 * twice. The next resume fetches the bytes under a name that is new with each owner, so that old files on a
 * disk are never mistaken for them. The former node removes its copy when it sees that the row belongs to
 * another node.
 */
import type { Log } from '../../lib/log.ts'
import type { SandboxTurns } from '../sandbox/row/sandbox-turns.ts'
import { newSnapshotName } from '../sandbox/snapshots/snapshot-names.ts'
import type { BytesFetcher } from './bytes-fetcher.ts'
import type { RemoteBytesStore } from './remote-bytes-store.ts'

type SandboxMigratorParts = {
  rows: Pick<RemoteBytesStore, 'findPaused' | 'claim'>
  fetcher: Pick<BytesFetcher, 'requireFit'>
  turns: Pick<SandboxTurns, 'acquireView'>
  nodeID: string
  log: Log
}

export type MigrationOptions = {
  /** The caller needs the memory in the snapshot. */
  memory: boolean
  /** The node that owned the sandbox so far, and that was seen to be away or offered the sandbox. */
  from: string
}

export class SandboxMigrator {
  readonly #parts: SandboxMigratorParts

  constructor(parts: SandboxMigratorParts) {
    this.#parts = parts
  }

  /**
   * True: this node owns the sandbox, which is paused. False: the sandbox is no longer paused, cannot run on
   * another node, or was taken by another node first; the caller should look up its owner again. With
   * `memory`, rejects with `unprocessable` if this machine cannot use the memory in the snapshot; the sandbox
   * then stays where it is.
   */
  claim(sandboxID: string, { memory, from }: MigrationOptions): Promise<boolean> {
    const { rows, turns, fetcher, nodeID, log } = this.#parts
    const findPaused = () => rows.findPaused(sandboxID)
    // Work of this node that began while it owned the sandbox is over before the row comes back.
    return turns.acquireView(sandboxID, findPaused, async ({ row: paused }) => {
      if (!paused) return false
      if (paused.nodeID === nodeID) return true
      if (!paused.stored || paused.nodeID !== from) return false
      if (memory && paused.stored.needs) await fetcher.requireFit(sandboxID, paused.stored.needs)
      const isMine = await rows.claim(paused, newSnapshotName(paused))
      if (isMine) log.info({ sandboxID, from: paused.nodeID }, 'A paused sandbox was taken over.')
      return isMine
    })
  }
}
