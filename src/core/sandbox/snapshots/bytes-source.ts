import type { MemoryLoad } from '../../ports/memory-load.ts'
import type { TemplateBuild } from '../../template/template.ts'
import type { RemoteRun, Sandbox } from '../row/sandbox.ts'

/**
 * Brings the files that a start needs to this machine's disk, unless they are there. core/object-storage fetches
 * them from the object store.
 */
export interface BytesSource {
  /**
   * Fetches the layers of a build and, with `withSnapshot`, the snapshot that its sandboxes start from.
   * `memory` says whether this machine can use the memory in that snapshot.
   */
  fetchBuild(
    build: Pick<TemplateBuild, 'buildID' | 'layers' | 'snapshot'>,
    options: { withSnapshot: boolean },
    signal: AbortSignal,
  ): Promise<{ memory: boolean }>
  /**
   * Fetches the snapshot of a paused sandbox that the object store has, in place of a copy that lacks what is wanted. Rejects with
   * `unprocessable` if its memory is wanted and this machine cannot use it. Returns where the rest comes from if the sandbox can start
   * before all memory is here.
   */
  fetchPaused(
    row: Sandbox,
    options: { memory: boolean; stored: RemoteRun },
    signal: AbortSignal,
  ): Promise<RemoteRun | undefined>
  /**
   * Loads the memory that a row says `arrivesFrom` the object store. Resolves when the sandbox reads no more of it.
   * While the object store fails, it tries again; rejects if that lasts for minutes.
   */
  loadMemory(row: Sandbox, load: MemoryLoad): Promise<void>
  /** What the object store has of a paused sandbox, or of one that is being resumed. Undefined: nothing, for certain. */
  storedOf(row: Pick<Sandbox, 'sandboxID' | 'runID' | 'state' | 'snapshot'>): Promise<RemoteRun | undefined>
}
