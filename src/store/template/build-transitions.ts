import type { Kysely } from 'kysely'
import type { BuildReason, BuildStatus, TemplateBuild } from '../../core/template/template.ts'
import type { Tables } from '../database/tables.ts'
import { buildColumns, buildOf } from './template-row.ts'

type BuildTransition = {
  buildID: string
  from: readonly BuildStatus[]
  to: BuildStatus
  changes: Partial<TemplateBuild>
}

export async function transitionBuild(
  db: Kysely<Tables>,
  nodeID: string,
  { buildID, from, to, changes }: BuildTransition,
): Promise<TemplateBuild | undefined> {
  if (from.length === 0) return undefined
  const row = await db
    .updateTable('template_builds')
    .set({ ...buildColumns(changes), status: to, node_id: nodeID })
    .where('id', '=', buildID)
    .where('status', 'in', from)
    // A waiting build has nothing on any machine yet: the node that starts it becomes its owner.
    .where((where) => where.or([where('node_id', '=', nodeID), where('status', '=', 'waiting')]))
    .returningAll()
    .executeTakeFirst()
  return row && buildOf(row)
}

export async function supersede(
  db: Kysely<Tables>,
  build: { templateID: string; buildID: string },
  tags: readonly string[],
  reason: BuildReason,
  at: number,
): Promise<string[]> {
  if (tags.length === 0) return []
  const rows = await db
    .updateTable('template_builds')
    .set(buildColumns({ status: 'error', reason, updatedAt: at, finishedAt: at }))
    .where('template_id', '=', build.templateID)
    .where('status', '=', 'waiting')
    .where('id', '<>', build.buildID)
    .where('id', 'in', (where) =>
      where
        .selectFrom('template_tags as carried')
        .select('carried.build_id')
        .where('carried.template_id', '=', build.templateID)
        .where('carried.tag', 'in', tags)
        // If two builds are requested at once, only the later one ends the other.
        .where(({ not, exists, selectFrom }) =>
          not(
            exists(
              selectFrom('template_tags as own')
                .select('own.sequence')
                .where('own.template_id', '=', build.templateID)
                .where('own.build_id', '=', build.buildID)
                .whereRef('own.sequence', '<', 'carried.sequence'),
            ),
          ),
        ),
    )
    .returning('id')
    .execute()
  return rows.map(({ id }) => id)
}

export async function listSuperseded(db: Kysely<Tables>, buildID: string): Promise<string[]> {
  const rows = await db
    .selectFrom('template_tags as own')
    .innerJoin('template_tags as older', (join) =>
      join
        .onRef('older.template_id', '=', 'own.template_id')
        .onRef('older.tag', '=', 'own.tag')
        .onRef('older.sequence', '<', 'own.sequence')
        .onRef('older.build_id', '<>', 'own.build_id'),
    )
    .innerJoin('template_builds', 'template_builds.id', 'older.build_id')
    .select('older.build_id')
    .distinct()
    .where('own.build_id', '=', buildID)
    .where('template_builds.status', '=', 'building')
    .execute()
  return rows.map(({ build_id }) => build_id)
}

export async function listBuildsIn(
  db: Kysely<Tables>,
  nodeID: string,
  statuses: readonly BuildStatus[],
  before: number,
): Promise<TemplateBuild[]> {
  if (statuses.length === 0) return []
  const rows = await db
    .selectFrom('template_builds')
    .selectAll()
    .where('status', 'in', statuses)
    .where('node_id', '=', nodeID)
    .where('updated_at', '<', before)
    .orderBy('updated_at')
    .orderBy('id')
    .execute()
  return rows.map(buildOf)
}
