import type { Kysely, Transaction } from 'kysely'
import { listIsFull, listLimits } from '../../core/team/list-limits.ts'
import type { Template, TemplateBuild, TemplateName } from '../../core/template/template.ts'
import type { BuildLimit, FreshTemplate } from '../../core/template/template-store.ts'
import { isAppError } from '../../lib/app-error.ts'
import type { Tables } from '../database/tables.ts'
import { lockTeam } from '../usage/limits.ts'
import { buildRow, templateRow } from './template-row.ts'
import { insertAssignments, lockTemplate, nameInUse } from './template-tags.ts'

export async function insertTemplate(
  transaction: Transaction<Tables>,
  template: Template,
  names: readonly TemplateName[],
): Promise<void> {
  if (template.teamID !== null) await refuseFullTeam(transaction, template.teamID)
  await transaction.insertInto('templates').values(templateRow(template)).execute()
  for (const [position, { namespace, alias }] of names.entries()) {
    const row = { namespace: namespace ?? '', alias, template_id: template.templateID, position }
    await transaction
      .insertInto('template_aliases')
      .values(row)
      .execute()
      .catch((cause) => {
        throw isAppError(cause, 'already_exists') ? nameInUse({ namespace, alias }, cause) : cause
      })
  }
}

/** Locks the team, so that concurrent requests cannot exceed the limit together. */
async function refuseFullTeam(transaction: Transaction<Tables>, teamID: string): Promise<void> {
  await lockTeam(transaction, teamID)
  const { total } = await transaction
    .selectFrom('templates')
    .select(({ fn }) => fn.countAll<number>().as('total'))
    .where('team_id', '=', teamID)
    .executeTakeFirstOrThrow()
  const { templatesPerTeam } = listLimits
  if (total < templatesPerTeam) return
  throw listIsFull(
    `A team can have at most ${templatesPerTeam} templates and snapshots: delete those it does not need`,
  )
}

export async function insertBuild(
  transaction: Transaction<Tables>,
  build: TemplateBuild,
  tags: readonly string[],
  nodeID: string,
): Promise<void> {
  await lockTemplate(transaction, build.templateID, build.createdAt)
  await transaction
    .insertInto('template_builds')
    .values({ ...buildRow(build), node_id: nodeID })
    .execute()
  await insertAssignments(transaction, build.templateID, build.buildID, tags, build.createdAt)
  await forgetFailedBuilds(transaction, build.templateID)
}

/** Requests that supersede each other leave a failed build each. */
async function forgetFailedBuilds(transaction: Transaction<Tables>, templateID: string): Promise<void> {
  await transaction
    .deleteFrom('template_builds')
    .where('id', 'in', (where) =>
      where
        .selectFrom('template_builds as failed')
        .select('failed.id')
        .where('failed.template_id', '=', templateID)
        .where('failed.status', '=', 'error')
        .orderBy('failed.created_at', 'desc')
        .orderBy('failed.id')
        // All that follow: SQLite has no offset without a limit.
        .limit(1_000_000)
        .offset(listLimits.failedBuildsPerTemplate),
    )
    .execute()
}

type LimitedBuild = {
  limit: BuildLimit
  build: TemplateBuild
  tags: readonly string[]
  fresh: FreshTemplate | undefined
  nodeID: string
}

export function insertBuildWithin(
  db: Kysely<Tables>,
  { limit, build, tags, fresh, nodeID }: LimitedBuild,
): Promise<boolean> {
  // Each statement must see the commits that happened while this one waited for the team's row.
  const transaction = db.transaction().setIsolationLevel('read committed')
  return transaction.execute(async (locked) => {
    await lockTeam(locked, limit.teamID)
    if ((await countBuilds(locked, limit)) >= limit.max) return false
    if (fresh) await insertTemplate(locked, fresh.template, fresh.names)
    await insertBuild(locked, build, tags, nodeID)
    return true
  })
}

async function countBuilds(
  transaction: Transaction<Tables>,
  { teamID, statuses }: BuildLimit,
): Promise<number> {
  const { total } = await transaction
    .selectFrom('template_builds')
    .innerJoin('templates', 'templates.id', 'template_builds.template_id')
    .select(({ fn }) => fn.countAll<number>().as('total'))
    .where('team_id', '=', teamID)
    .where('status', 'in', statuses)
    .executeTakeFirstOrThrow()
  return total
}
