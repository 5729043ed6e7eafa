import type { Transaction } from 'kysely'
import { activeStates, type Sandbox } from '../core/sandbox/sandbox.ts'
import type { ExceededLimit } from '../core/stores.ts'
import type { TeamLimits } from '../core/team/team.ts'
import { AppError } from '../lib/app-error.ts'
import { isUnended } from './sandbox-queries.ts'
import type { Tables } from './tables.ts'

export function unknownTeam(teamID: string): AppError {
  return new AppError('not_found', `There is no team '${teamID}'; \`warren team list\` shows those there are`)
}

/** A write that changes nothing holds the team's row until the commit, with the same SQL on both engines. */
export async function lockTeam(transaction: Transaction<Tables>, teamID: string): Promise<void> {
  const { numUpdatedRows } = await transaction
    .updateTable('teams')
    .set((set) => ({ created_at: set.ref('created_at') }))
    .where('id', '=', teamID)
    .executeTakeFirstOrThrow()
  if (numUpdatedRows === 0n) throw unknownTeam(teamID)
}

/** The limit that the team would pass with this sandbox active beside all its others. */
export async function exceededLimit(
  transaction: Transaction<Tables>,
  sandbox: Pick<Sandbox, 'sandboxID' | 'teamID' | 'cpuCount' | 'memoryMB'>,
  limits: TeamLimits,
): Promise<ExceededLimit | undefined> {
  const used = await transaction
    .selectFrom('sandboxes')
    .select(({ fn }) => fn.countAll<number>().filterWhere('state', 'in', activeStates).as('count'))
    .select(({ fn }) => fn.sum<number | null>('cpu_count').filterWhere('state', 'in', activeStates).as('cpu'))
    .select(({ fn }) => fn.sum<number | null>('memory_mb').as('memory'))
    .where('team_id', '=', sandbox.teamID)
    .where('id', '<>', sandbox.sandboxID)
    .where(isUnended)
    .where((where) =>
      where.or([
        where('state', 'in', activeStates),
        // A frozen one holds its memory and nothing else.
        where.and([where('state', '=', 'paused'), where('is_frozen', '=', 1)]),
      ]),
    )
    .executeTakeFirstOrThrow()
  if (used.count + 1 > limits.maxSandboxes) return 'maxSandboxes'
  if ((used.cpu ?? 0) + sandbox.cpuCount > limits.maxCPU) return 'maxCPU'
  if ((used.memory ?? 0) + sandbox.memoryMB > limits.maxMemoryMB) return 'maxMemoryMB'
  return undefined
}
