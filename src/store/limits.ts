import type { Transaction } from 'kysely'
import type { Sandbox } from '../core/sandbox/row/sandbox.ts'
import type { ExceededLimit } from '../core/sandbox/row/sandbox-store.ts'
import type { TeamLimits } from '../core/team/team.ts'
import { AppError } from '../lib/app-error.ts'
import { usageOfTeam } from './sandbox-counts.ts'
import type { Tables } from './tables.ts'

export function unknownTeam(teamID: string): AppError {
  return new AppError('not_found', `There is no team '${teamID}'; \`warren team list\` lists all teams`)
}

/**
 * Locks the team's row until the commit by a write that changes nothing, which is the same SQL on both
 * engines.
 */
export async function lockTeam(transaction: Transaction<Tables>, teamID: string): Promise<void> {
  const { numUpdatedRows } = await transaction
    .updateTable('teams')
    .set((set) => ({ created_at: set.ref('created_at') }))
    .where('id', '=', teamID)
    .executeTakeFirstOrThrow()
  if (numUpdatedRows === 0n) throw unknownTeam(teamID)
}

/** The limit that the team would exceed with this sandbox active beside all its others. */
export async function exceededLimit(
  transaction: Transaction<Tables>,
  { teamID, cpuCount, memoryMB }: Pick<Sandbox, 'teamID' | 'cpuCount' | 'memoryMB'>,
  limits: TeamLimits,
): Promise<ExceededLimit | undefined> {
  const used = await usageOfTeam(transaction, teamID)
  if (used.sandboxes + 1 > limits.maxSandboxes) return 'maxSandboxes'
  if (used.cpuCount + cpuCount > limits.maxCPU) return 'maxCPU'
  if (used.memoryMB + memoryMB > limits.maxMemoryMB) return 'maxMemoryMB'
  return undefined
}
