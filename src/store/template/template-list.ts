import type { ExpressionBuilder, Kysely, Transaction } from 'kysely'
import { defaultTag } from '../../core/template/reference.ts'
import type { Template, TemplateBuild, TemplateName, TemplateSummary } from '../../core/template/template.ts'
import type { Tables } from '../database/tables.ts'
import { buildOf, namesOf, templateOf } from './template-row.ts'

export type TemplatePage = {
  order: 'asc' | 'desc'
  limit: number
  after?: { createdAt: number; templateID: string }
}

export type BuildPage = { limit: number; after?: { createdAt: number; buildID: string } }

/** Limits the number of bound values of one query to what either engine takes. */
const idsPerQuery = 500

export function listTemplates(
  db: Kysely<Tables>,
  teamID: string,
  { order, limit, after }: TemplatePage,
): Promise<TemplateSummary[]> {
  return atOneMoment(db, (transaction) => {
    let query = selectTemplates(transaction)
      .where('team_id', '=', teamID)
      .where((where) => where.or([where('is_snapshot', '=', 0), where.exists(ownBuild(where))]))
      .orderBy('created_at', order)
      .orderBy('id')
      .limit(limit)
    if (after) {
      query = query.where((where) =>
        where.or([
          where('created_at', order === 'asc' ? '>' : '<', after.createdAt),
          where.and([where('created_at', '=', after.createdAt), where('id', '>', after.templateID)]),
        ]),
      )
    }
    return summariesOf(transaction, query)
  })
}

export function listDefaultTemplates(db: Kysely<Tables>): Promise<TemplateSummary[]> {
  return atOneMoment(db, (transaction) =>
    summariesOf(
      transaction,
      selectTemplates(transaction).where('team_id', 'is', null).where('is_snapshot', '=', 0).orderBy('id'),
    ),
  )
}

export async function summaryOf(
  db: Kysely<Tables>,
  templateID: string,
): Promise<TemplateSummary | undefined> {
  const [summary] = await atOneMoment(db, (transaction) =>
    summariesOf(transaction, selectTemplates(transaction).where('id', '=', templateID)),
  )
  return summary
}

export async function listBuilds(
  db: Kysely<Tables>,
  templateID: string,
  { limit, after }: BuildPage,
): Promise<TemplateBuild[]> {
  let query = db
    .selectFrom('template_builds')
    .selectAll()
    .where('template_id', '=', templateID)
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(limit)
  if (after) {
    query = query.where((where) =>
      where.or([
        where('created_at', '<', after.createdAt),
        where.and([where('created_at', '=', after.createdAt), where('id', '>', after.buildID)]),
      ]),
    )
  }
  return (await query.execute()).map(buildOf)
}

/** Runs the work in a transaction in which all queries see the same rows. */
function atOneMoment<T>(db: Kysely<Tables>, work: (transaction: Transaction<Tables>) => Promise<T>) {
  return db.transaction().setIsolationLevel('repeatable read').execute(work)
}

function selectTemplates(db: Kysely<Tables>) {
  return db
    .selectFrom('templates')
    .selectAll()
    .select((select) => [
      select
        .selectFrom('template_builds')
        .select(({ fn }) => fn.countAll<number>().as('total'))
        .whereRef('template_builds.template_id', '=', 'templates.id')
        .as('build_count'),
      newestDefault(select).select('built.status').as('build_status'),
      newestDefault(select).select('built.id').where('built.status', '=', 'ready').as('build_id'),
    ])
}

/** Selects builds that are not snapshots of a sandbox: the name of a snapshot can be built like any other. */
function ownBuild(select: ExpressionBuilder<Tables, 'templates'>) {
  return select
    .selectFrom('template_builds as own')
    .select('own.id')
    .whereRef('own.template_id', '=', 'templates.id')
    .where((where) =>
      where.or([where('own.saved_name', 'is', null), where('own.saved_name', '!=', where.ref('own.id'))]),
    )
}

/** The newest assignment of the default tag to the template of the surrounding query. */
function newestDefault(select: ExpressionBuilder<Tables, 'templates'>) {
  return select
    .selectFrom('template_tags as assigned')
    .innerJoin('template_builds as built', 'built.id', 'assigned.build_id')
    .whereRef('assigned.template_id', '=', 'templates.id')
    .where('assigned.tag', '=', defaultTag)
    .orderBy('assigned.sequence', 'desc')
    .limit(1)
}

async function summariesOf(
  transaction: Transaction<Tables>,
  query: ReturnType<typeof selectTemplates>,
): Promise<TemplateSummary[]> {
  const rows = await query.execute()
  const builds = await findBuilds(
    transaction,
    rows.flatMap(({ build_id }) => build_id ?? []),
  )
  const names = await findNames(
    transaction,
    rows.map(({ id }) => id),
  )
  return rows.map((row) => ({
    template: templateOf(row),
    names: names.get(row.id) ?? [],
    build: (row.build_id !== null && builds.get(row.build_id)) || null,
    buildStatus: row.build_status ?? 'waiting',
    buildCount: row.build_count ?? 0,
  }))
}

async function findBuilds(
  transaction: Transaction<Tables>,
  buildIDs: string[],
): Promise<Map<string, TemplateBuild>> {
  const found = new Map<string, TemplateBuild>()
  for (const some of chunks(buildIDs)) {
    const rows = await transaction.selectFrom('template_builds').selectAll().where('id', 'in', some).execute()
    for (const row of rows) found.set(row.id, buildOf(row))
  }
  return found
}

async function findNames(
  transaction: Transaction<Tables>,
  templateIDs: string[],
): Promise<Map<Template['templateID'], TemplateName[]>> {
  const found = new Map<string, TemplateName[]>()
  for (const some of chunks(templateIDs)) {
    const rows = await transaction
      .selectFrom('template_aliases')
      .selectAll()
      .where('template_id', 'in', some)
      .orderBy('position')
      .execute()
    for (const [templateID, group] of Map.groupBy(rows, (row) => row.template_id)) {
      found.set(templateID, namesOf(group))
    }
  }
  return found
}

function* chunks(ids: readonly string[]): Generator<string[]> {
  for (let start = 0; start < ids.length; start += idsPerQuery) yield ids.slice(start, start + idsPerQuery)
}
