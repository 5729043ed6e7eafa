/** How a draining node offers a sandbox to another node, and how that node takes it. */
import { AppError } from '../../lib/app-error.ts'
import type { Log } from '../../lib/log.ts'
import type { SandboxMigrator } from '../object-storage/migrator.ts'
import type { RemoteBytesStore } from '../object-storage/remote-bytes-store.ts'
import type { MemoryNeeds } from '../ports/driver.ts'
import { type DepartureParts, resumeDeparted } from './departure.ts'
import type { ClusterNode } from './node.ts'

/**
 * A paused sandbox whose snapshot the object store has. Its row says whether it is to run again, and until
 * when.
 */
export type OfferedSandbox = {
  sandboxID: string
  /** Later runs are not covered. */
  runID: string
  /** The node that offers the sandbox. The sandbox is taken from this node only. */
  nodeID: string
}

/** Resolves when the other node owns the sandbox and, if it is to run again, has resumed it. */
export type HandOver = (node: ClusterNode, offered: OfferedSandbox, signal: AbortSignal) => Promise<void>

/**
 * Asks a node why memory with these needs cannot be restored there. Undefined: it can, or the node does not say
 * before it is offered the sandbox.
 */
export type AskWhyUnfit = (
  node: ClusterNode,
  needs: MemoryNeeds,
  signal: AbortSignal,
) => Promise<string | undefined>

type TakerParts = DepartureParts & {
  rows: Pick<RemoteBytesStore, 'findPaused'>
  migrator: Pick<SandboxMigrator, 'claim'>
  log: Log
}

/**
 * Safe to call again for the same offer. Rejects with `unprocessable` if this machine cannot use the
 * sandbox's memory. After any other failure the sandbox is paused, on either node, and its row says that it
 * is to run again: its owner resumes it later.
 */
export async function takeOffered(parts: TakerParts, offered: OfferedSandbox): Promise<void> {
  const { rows, migrator, log } = parts
  const { sandboxID, runID, nodeID } = offered
  const paused = await rows.findPaused(sandboxID)
  // The sandbox was resumed or has ended since it was offered.
  if (paused?.runID !== runID) return
  if (!(await migrator.claim(sandboxID, { memory: true, from: nodeID }))) {
    throw new AppError('unavailable', `Sandbox "${sandboxID}" could not be taken over.`)
  }
  if (await resumeDeparted(parts, offered)) {
    log.info({ sandboxID }, 'A sandbox of a draining node was resumed on this node.')
  }
}
