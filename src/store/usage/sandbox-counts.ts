/**
 * Resource use of teams and nodes, from the counts that every change of a row maintains: see migration 0016.
 */
import { type ExpressionBuilder, type Kysely, sql } from 'kysely'
import { activeStates, type SandboxState } from '../../core/sandbox/row/sandbox.ts'
import type { Tables } from '../database/tables.ts'

/** Written as a literal: only then does the engine use the indexes of rows that have not ended. */
export const isUnended = (where: ExpressionBuilder<Tables, 'sandboxes'>) =>
  where('state', '<>', sql.lit('ended'))

export type Usage = { sandboxes: number; cpuCount: number; memoryMB: number }

/** The resource use of a team on all nodes. A frozen sandbox uses only its memory. */
export const sumOfTeam = (db: Kysely<Tables>, teamID: string) =>
  sumOf(db, { column: 'team_id', value: teamID }, activeStates)

const startedStates = ['running', 'pausing', 'snapshotting', 'killing'] as const

/** The resource use of all teams on one node, without starting sandboxes. */
export async function usageOfNode(db: Kysely<Tables>, nodeID: string): Promise<Usage> {
  return usageIn(await sumOf(db, { column: 'node_id', value: nodeID }, startedStates).executeTakeFirst())
}

/** The same for each team that has sandboxes there. */
export async function usageOfTeams(
  db: Kysely<Tables>,
  nodeID: string,
): Promise<(Usage & { teamID: string })[]> {
  const rows = await sumOf(db, { column: 'node_id', value: nodeID }, startedStates)
    .select('team_id')
    .groupBy('team_id')
    .execute()
  const all = rows.map(({ team_id, ...sums }) => ({ teamID: team_id, ...usageIn(sums) }))
  return all.filter(({ sandboxes, memoryMB }) => sandboxes > 0 || memoryMB > 0)
}

const sumOf = (
  db: Kysely<Tables>,
  of: { column: 'team_id' | 'node_id'; value: string },
  active: readonly SandboxState[],
) =>
  db
    .selectFrom('sandbox_counts')
    .select(({ fn }) => [
      fn.sum<number | null>('sandboxes').filterWhere('state', 'in', active).as('sandboxes'),
      fn.sum<number | null>('cpu_count').filterWhere('state', 'in', active).as('cpu'),
      fn.sum<number | null>('memory_mb').as('memory'),
    ])
    .where(of.column, '=', of.value)
    .where((where) =>
      where.or([
        where('state', 'in', active),
        where.and([where('state', '=', 'paused'), where('is_frozen', '=', 1)]),
      ]),
    )

type Sums = { sandboxes: number | null; cpu: number | null; memory: number | null }

export const usageIn = (sums: Sums | undefined): Usage => ({
  sandboxes: sums?.sandboxes ?? 0,
  cpuCount: sums?.cpu ?? 0,
  memoryMB: sums?.memory ?? 0,
})

/** Counts the sandboxes of all nodes. None of the states may be `ended`. */
export async function countInStates(
  db: Kysely<Tables>,
  { teamID, states }: { teamID: string; states: readonly SandboxState[] },
): Promise<number> {
  const { total } = await db
    .selectFrom('sandbox_counts')
    .select(({ fn }) => fn.sum<number | null>('sandboxes').as('total'))
    .where('team_id', '=', teamID)
    .where('state', 'in', states)
    .executeTakeFirstOrThrow()
  return total ?? 0
}

/** Counts the sandboxes of a node, of all teams, that have not ended. */
export async function countByState(
  db: Kysely<Tables>,
  nodeID: string,
): Promise<{ state: SandboxState; count: number }[]> {
  const rows = await db
    .selectFrom('sandbox_counts')
    .select(({ fn }) => ['state', fn.sum<number>('sandboxes').as('count')])
    .where('node_id', '=', nodeID)
    .where('state', '!=', 'ended')
    .groupBy('state')
    .execute()
  return rows.map(({ state, count }) => ({ state: state as SandboxState, count: Number(count) }))
}
