import type { TemplateBuild } from '../../template/template.ts'
import type { Sandbox } from '../row/sandbox.ts'

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
   * Fetches the snapshot of a paused sandbox. Rejects with `unprocessable` if its memory is wanted and this
   * machine cannot use it.
   */
  fetchPaused(row: Sandbox, options: { memory: boolean }, signal: AbortSignal): Promise<void>
  /** True if the object store has the snapshot of a paused sandbox that is not on this machine. */
  isStored(row: Pick<Sandbox, 'sandboxID' | 'runID'>): Promise<boolean>
}
