import { sql, type Transaction } from 'kysely'
import { activeStates, type Sandbox } from '../../core/sandbox/row/sandbox.ts'
import type { ExceededLimit } from '../../core/sandbox/row/sandbox-store.ts'
import type { TeamLimits } from '../../core/team/team.ts'
import { AppError } from '../../lib/app-error.ts'
import type { Tables } from '../database/tables.ts'
import { isPostgres } from '../database/together.ts'
import type { Usage } from './sandbox-counts.ts'

export function unknownTeam(teamID: string): AppError {
  return new AppError('not_found', `There is no team '${teamID}'; \`warren team list\` lists all teams`)
}

/**
 * Locks the team's row until the commit, against others that lock it and not against those that only name the team. SQLite
 * lets only one transaction write at a time. The isolation must be `read committed`: what follows must see what was
 * committed while this waited. No row: there is no such team.
 */
export const lockingTeam = (transaction: Transaction<Tables>, teamID: string) =>
  transaction
    .selectFrom('teams')
    .select('id')
    .where('id', '=', teamID)
    .$if(isPostgres(transaction), (query) => query.forNoKeyUpdate())

export async function lockTeam(transaction: Transaction<Tables>, teamID: string): Promise<void> {
  if (!(await lockingTeam(transaction, teamID).executeTakeFirst())) throw unknownTeam(teamID)
}

export type LimitedSizes = Pick<Sandbox, 'teamID' | 'cpuCount' | 'memoryMB' | 'gpuCount'>

/** The limit that the team would pass with this sandbox active beside all its others, which use so much. */
export async function exceededLimit(
  transaction: Transaction<Tables>,
  { teamID, cpuCount, memoryMB, gpuCount = 0 }: LimitedSizes,
  limits: TeamLimits,
  used: Usage,
): Promise<ExceededLimit | undefined> {
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
