/**
 * Answers from what a paused sandbox can start on this machine. A name says nothing about the files under it, so the files themselves are
 * asked what they hold and whether a sandbox has run on them, and the row what the object store has.
 */
import type { RemoteRun, Sandbox } from '../row/sandbox.ts'
import type { BytesSource } from './bytes-source.ts'
import type { SnapshotStore } from './snapshot-store.ts'

type SnapshotSource =
  /**
   * A copy on the disk. `memory`: it has memory that fits its files. `isWhole`: it is as it was taken, with all that is wanted of it;
   * otherwise it is what an earlier start has left, and no other copy exists.
   */
  | { kind: 'disk'; memory: boolean; isWhole: boolean }
  /** The object store has it, and the disk has nothing, or less than is wanted. */
  | { kind: 'store'; stored: RemoteRun }
  | { kind: 'none' }

type SnapshotSourcesParts = {
  snapshots: Pick<SnapshotStore, 'find'>
  /** Undefined without an object store. */
  fetcher: Pick<BytesSource, 'storedOf'> | undefined
}

export class SnapshotSources {
  readonly #parts: SnapshotSourcesParts

  constructor(parts: SnapshotSourcesParts) {
    this.#parts = parts
  }

  /**
   * For a sandbox that is paused or being resumed, and whose processes are not on this machine. `memory`: the caller wants the memory that
   * the row promises. Rejects if an answer is not certain.
   */
  async find(
    row: Pick<Sandbox, 'sandboxID' | 'runID' | 'state' | 'snapshot'>,
    { memory }: { memory: boolean },
  ): Promise<SnapshotSource> {
    const { snapshots, fetcher } = this.#parts
    if (!row.snapshot) return { kind: 'none' }
    const found = await snapshots.find(row.snapshot.name)
    const copy = found?.arriving ? undefined : found
    // What a failed resume has left of the files is the snapshot only once the row says so.
    const isOfRow = row.state === 'paused' || !copy?.used
    const hasMemory = !memory || !row.snapshot.memory || copy?.memory === true
    if (copy && isOfRow && hasMemory) return { kind: 'disk', memory: copy.memory, isWhole: true }
    const stored = await fetcher?.storedOf(row)
    if (stored) return { kind: 'store', stored }
    return copy ? { kind: 'disk', memory: copy.memory, isWhole: false } : { kind: 'none' }
  }
}
