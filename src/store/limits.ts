import { sql, type Transaction } from 'kysely'
import { activeStates, type Sandbox } from '../core/sandbox/row/sandbox.ts'
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

export type LimitedSizes = Pick<Sandbox, 'teamID' | 'cpuCount' | 'memoryMB' | 'gpuCount'>

/** The limit that the team would pass with this sandbox active beside all its others. */
export async function exceededLimit(
  transaction: Transaction<Tables>,
  { teamID, cpuCount, memoryMB, gpuCount = 0 }: LimitedSizes,
  limits: TeamLimits,
): Promise<ExceededLimit | undefined> {
  const used = await usageOfTeam(transaction, teamID)
  if (used.sandboxes + 1 > limits.maxSandboxes) return 'maxSandboxes'
  if (used.cpuCount + cpuCount > limits.maxCPU) return 'maxCPU'
  if (used.memoryMB + memoryMB > limits.maxMemoryMB) return 'maxMemoryMB'
  if (gpuCount > 0 && (await gpusOfTeam(transaction, teamID)) + gpuCount > limits.maxGPUs) return 'maxGPUs'
  return undefined
}

/** Number of GPUs of the team's active sandboxes on all nodes. */
async function gpusOfTeam(transaction: Transaction<Tables>, teamID: string): Promise<number> {
  const { total } = await transaction
    .selectFrom('sandboxes')
    .select(({ fn }) => fn.sum<number | null>('gpu_count').as('total'))
    .where('team_id', '=', teamID)
    .where('gpu_count', '>', sql.lit(0))
    .where('state', 'in', activeStates)
    .executeTakeFirstOrThrow()
  return Number(total ?? 0)
}
