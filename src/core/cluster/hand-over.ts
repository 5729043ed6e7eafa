/** What a node that is drained asks of another one, and how that one does it. */
import { AppError } from '../../lib/app-error.ts'
import type { Log } from '../../lib/log.ts'
import type { ArchiveStore } from '../archive/archive-store.ts'
import type { SandboxMover } from '../sandbox/mover.ts'
import type { SandboxService } from '../sandbox/service.ts'
import type { SandboxStore, TeamStore } from '../stores.ts'
import type { ClusterNode } from './node.ts'

/** A paused sandbox whose snapshot the object store has. */
export type OfferedSandbox = {
  sandboxID: string
  /** What became of it in a later run is none of this. */
  runID: string
  /** How much of its time is left when it runs again; null: it stays paused. */
  timeoutMs: number | null
}

/** Resolves when the other node has the sandbox and, where that was asked for, it runs there. */
export type HandOver = (node: ClusterNode, offered: OfferedSandbox, signal: AbortSignal) => Promise<void>

export type TakerParts = {
  rows: Pick<ArchiveStore, 'findPaused'>
  mover: Pick<SandboxMover, 'take'>
  sandboxes: Pick<SandboxStore, 'find'>
  teams: Pick<TeamStore, 'findTeam'>
  service: Pick<SandboxService, 'resumeAsSeen'>
  log: Log
}

/**
 * May be asked again for the same: what was done already is not done twice. Rejects with `unprocessable` when its memory
 * cannot be used here. After any other failure the sandbox is paused, here or where it was.
 */
export async function takeOffered(parts: TakerParts, offered: OfferedSandbox): Promise<void> {
  const { rows, mover, sandboxes, teams, service, log } = parts
  const { sandboxID, runID, timeoutMs } = offered
  const paused = await rows.findPaused(sandboxID)
  // It was resumed or has ended since it was offered.
  if (paused?.runID !== runID) return
  if (!(await mover.take(sandboxID, { memory: true }))) {
    throw new AppError('unavailable', `Sandbox "${sandboxID}" could not be taken over.`)
  }
  const row = timeoutMs === null ? undefined : await sandboxes.find(sandboxID)
  if (timeoutMs === null || row?.state !== 'paused' || row.runID !== runID) return
  const team = await teams.findTeam(row.teamID)
  if (team && (await service.resumeAsSeen(row, team, timeoutMs))) {
    log.info({ sandboxID }, 'A sandbox of a node that is drained runs here now.')
  }
}
