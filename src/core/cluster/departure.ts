/**
 * A sandbox that a drain has paused, and that is to run again until the time that its row says (`runUntil`). Whichever node
 * has the row resumes it, also one that has just started and knows nothing of the drain.
 */
import type { Clock } from '../../lib/clock.ts'
import type { PausedSandbox } from '../archive/archive-store.ts'
import type { SandboxStore } from '../sandbox/row/sandbox-store.ts'
import type { SandboxService } from '../sandbox/service.ts'
import type { TeamStore } from '../team/team-store.ts'

/** If its time is over by now, it runs for so long, and ends or is paused as any other. */
const leastMs = 1000

export type DepartureParts = {
  sandboxes: Pick<SandboxStore, 'find'>
  teams: Pick<TeamStore, 'findTeam'>
  service: Pick<SandboxService, 'resumeAsSeen'>
  clock: Clock
}

/** False: it is not paused on this node in that run any more, or not to run again. */
export async function resumeDeparted(
  { sandboxes, teams, service, clock }: DepartureParts,
  { sandboxID, runID }: Pick<PausedSandbox, 'sandboxID' | 'runID'>,
): Promise<boolean> {
  const row = await sandboxes.find(sandboxID)
  if (row?.state !== 'paused' || row.runID !== runID || row.runUntil === null) return false
  const team = await teams.findTeam(row.teamID)
  if (!team) return false
  const timeoutMs = Math.max(leastMs, row.runUntil - clock.now())
  return (await service.resumeAsSeen(row, team, timeoutMs)) !== undefined
}
