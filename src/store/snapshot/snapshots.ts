import type { Kysely } from 'kysely'
import type { SnapshotEntry } from '../../core/template/template.ts'
import type { SnapshotFilter } from '../../core/template/template-store.ts'
import type { Tables } from '../database/tables.ts'

export type SnapshotPage = { limit: number; after?: { createdAt: number; templateID: string } }

export async function listSnapshots(
  db: Kysely<Tables>,
  filter: SnapshotFilter,
  { limit, after }: SnapshotPage,
): Promise<SnapshotEntry[]> {
  const { templateID, tag, sandboxID } = filter
  let query = db
    .selectFrom('templates')
    .innerJoin('template_tags', 'template_tags.template_id', 'templates.id')
    .innerJoin('template_builds', 'template_builds.id', 'template_tags.build_id')
    .select([
      'templates.id as templateID',
      'template_tags.tag',
      'template_builds.created_at as createdAt',
      'template_builds.source_sandbox_id as sandboxID',
      'template_builds.cpu_count as cpuCount',
      'template_builds.memory_mb as memoryMB',
      'template_builds.disk_mb as diskMB',
    ])
    .where('templates.team_id', '=', filter.teamID)
    .where('templates.is_snapshot', '=', 1)
    .where('template_tags.sequence', '=', (where) =>
      where
        .selectFrom('template_tags as assigned')
        .innerJoin('template_builds as built', 'built.id', 'assigned.build_id')
        .select(({ fn }) => fn.max('assigned.sequence').as('newest'))
        .whereRef('assigned.template_id', '=', 'templates.id')
        .where('built.status', '=', 'ready')
        // The name of a snapshot may also have been built; only builds from a sandbox have their own ID as
        // the snapshot name.
        .whereRef('built.saved_name', '=', 'built.id')
        .$if(tag !== undefined, (some) => some.where('assigned.tag', '=', tag as string))
        .$if(sandboxID !== undefined, (some) =>
          some.where('built.source_sandbox_id', '=', sandboxID as string),
        ),
    )
    .orderBy('template_builds.created_at', 'desc')
    .orderBy('templates.id')
    .limit(limit)
  if (templateID !== undefined) query = query.where('templates.id', '=', templateID)
  if (after) {
    query = query.where((where) =>
      where.or([
        where('template_builds.created_at', '<', after.createdAt),
        where.and([
          where('template_builds.created_at', '=', after.createdAt),
          where('templates.id', '>', after.templateID),
        ]),
      ]),
    )
  }
  // The engine's rows are not plain objects. A build with its own snapshot has a source.
  return (await query.execute()).map(({ sandboxID, ...row }) => ({ ...row, sandboxID: sandboxID! }))
}
