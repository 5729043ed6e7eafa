/** What a node that is drained asks of another one, and how that one does it. */
import { AppError } from '../../lib/app-error.ts'
import type { Log } from '../../lib/log.ts'
import type { ArchiveStore } from '../archive/archive-store.ts'
import type { SandboxMover } from '../archive/mover.ts'
import { type DepartureParts, resumeDeparted } from './departure.ts'
import type { ClusterNode } from './node.ts'

/** A paused sandbox whose snapshot the object store has. Its row says whether it is to run again, and until when. */
export type OfferedSandbox = {
  sandboxID: string
  /** Later runs are not covered. */
  runID: string
  /** The node that offers it: it is taken from that one alone. */
  nodeID: string
}

/** Resolves when the other node has the sandbox and, where it is to run again, it runs there. */
export type HandOver = (node: ClusterNode, offered: OfferedSandbox, signal: AbortSignal) => Promise<void>

export type TakerParts = DepartureParts & {
  rows: Pick<ArchiveStore, 'findPaused'>
  mover: Pick<SandboxMover, 'take'>
  log: Log
}

/**
 * May be asked again for the same: what was done already is not done twice. Rejects with `unprocessable` when its memory
 * cannot be used here. After any other failure the sandbox is paused, here or where it was, and its row says that it is
 * to run again: whoever has it resumes it later.
 */
export async function takeOffered(parts: TakerParts, offered: OfferedSandbox): Promise<void> {
  const { rows, mover, log } = parts
  const { sandboxID, runID, nodeID } = offered
  const paused = await rows.findPaused(sandboxID)
  // It was resumed or has ended since it was offered.
  if (paused?.runID !== runID) return
  if (!(await mover.take(sandboxID, { memory: true, from: nodeID }))) {
    throw new AppError('unavailable', `Sandbox "${sandboxID}" could not be taken over.`)
  }
  if (await resumeDeparted(parts, offered)) {
    log.info({ sandboxID }, 'A sandbox of a node that is drained runs here now.')
  }
}
