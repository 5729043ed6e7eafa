import type { TemplateBuild } from '../../template/template.ts'
import type { Sandbox } from '../row/sandbox.ts'

/** Brings what starts need to this machine's disk, if it is not there. core/archive has it from the object store. */
export interface BytesSource {
  /**
   * The layers of a build and, if wanted, the snapshot that its sandboxes start from. `memory` says whether the memory
   * in that snapshot can be used here.
   */
  bringBuild(
    build: Pick<TemplateBuild, 'buildID' | 'layers' | 'snapshot'>,
    options: { withSnapshot: boolean },
    signal: AbortSignal,
  ): Promise<{ memory: boolean }>
  /** The snapshot of a paused sandbox. Rejects with `unprocessable` when its memory is wanted and cannot be used here. */
  bringPaused(row: Sandbox, options: { memory: boolean }, signal: AbortSignal): Promise<void>
  /** Whether the object store has the snapshot of a paused sandbox that is not on this machine. */
  isArchived(row: Pick<Sandbox, 'sandboxID' | 'runID'>): Promise<boolean>
}
