/**
 * Resumes a sandbox that a drain has paused and that is to run again until the time in its row (`runUntil`).
 * The node that has the row does it, even one that has just started and knows nothing of the drain.
 */
import type { Clock } from '../../lib/clock.ts'
import type { PausedSandbox } from '../object-storage/remote-bytes-store.ts'
import type { SandboxStore } from '../sandbox/row/sandbox-store.ts'
import type { SandboxUpkeep } from '../sandbox/upkeep.ts'
import type { TeamStore } from '../team/team-store.ts'

/**
 * Minimum run time of a resumed sandbox whose time is already over. Then it ends or pauses like any other.
 */
const minMs = 1000

export type DepartureParts = {
  sandboxes: Pick<SandboxStore, 'find'>
  teams: Pick<TeamStore, 'findTeam'>
  upkeep: Pick<SandboxUpkeep, 'resumeAsSeen'>
  clock: Clock
}

/** False if the sandbox is no longer paused on this node in this run, or is not to run again. */
export async function resumeDeparted(
  { sandboxes, teams, upkeep, clock }: DepartureParts,
  { sandboxID, runID }: Pick<PausedSandbox, 'sandboxID' | 'runID'>,
): Promise<boolean> {
  const row = await sandboxes.find(sandboxID)
  if (row?.state !== 'paused' || row.runID !== runID || row.runUntil === null) return false
  const team = await teams.findTeam(row.teamID)
  if (!team) return false
  const timeoutMs = Math.max(minMs, row.runUntil - clock.now())
  return (await upkeep.resumeAsSeen(row, team, timeoutMs)) !== undefined
}
