import type { Kysely, Transaction } from 'kysely'
import { listIsFull, listLimits } from '../../core/team/list-limits.ts'
import type { ReadyAssignment } from '../../core/template/tag-history.ts'
import type { TagAssignment, TemplateName } from '../../core/template/template.ts'
import { AppError } from '../../lib/app-error.ts'
import type { Tables } from '../database/tables.ts'
import { isPostgres } from '../database/together.ts'

/**
 * Locks the template's row until the commit by a write, so that sequence numbers and positions are assigned
 * one by one. Without a time, the row stays unchanged.
 */
export async function lockTemplate(
  transaction: Transaction<Tables>,
  templateID: string,
  updatedAt?: number,
): Promise<void> {
  const { numUpdatedRows } = await transaction
    .updateTable('templates')
    .set((set) => ({ updated_at: updatedAt ?? set.ref('updated_at') }))
    .where('id', '=', templateID)
    .executeTakeFirstOrThrow()
  if (numUpdatedRows === 0n) throw unknownTemplate(templateID)
}

/**
 * Prevents the deletion of the template until the commit, while others may use it too. SQLite lets only one
 * transaction write at a time, and needs no row lock. No row: there is no such template.
 */
export const keepingTemplate = (transaction: Transaction<Tables>, templateID: string) =>
  transaction
    .selectFrom('templates')
    .select('id')
    .where('id', '=', templateID)
    .$if(isPostgres(transaction), (query) => query.forKeyShare())

/**
 * Waits for those who use or change the template, and locks it until the commit. False if there is no such
 * template.
 */
export async function lockForDeletion(
  transaction: Transaction<Tables>,
  templateID: string,
): Promise<boolean> {
  const row = await transaction
    .selectFrom('templates')
    .select('id')
    .where('id', '=', templateID)
    .$if(isPostgres(transaction), (query) => query.forUpdate())
    .executeTakeFirst()
  return row !== undefined
}

export function unknownTemplate(templateID: string): AppError {
  return new AppError('not_found', `There is no template '${templateID}'; it may have been deleted`)
}

export function nameInUse({ namespace, alias }: TemplateName, cause?: unknown): AppError {
  const name = namespace === null ? alias : `${namespace}/${alias}`
  const message = `A template with the name '${name}' exists already; choose another name`
  return new AppError('already_exists', message, { cause })
}

export function addName(db: Kysely<Tables>, templateID: string, name: TemplateName): Promise<void> {
  const transaction = db.transaction().setIsolationLevel('read committed')
  return transaction.execute(async (locked) => {
    await lockTemplate(locked, templateID)
    const { last } = await locked
      .selectFrom('template_aliases')
      .select((select) => select.fn.max('position').as('last'))
      .where('template_id', '=', templateID)
      .executeTakeFirstOrThrow()
    const added = await locked
      .insertInto('template_aliases')
      .values({
        namespace: name.namespace ?? '',
        alias: name.alias,
        template_id: templateID,
        position: (last ?? -1) + 1,
      })
      // If the template has the name already, the write changes nothing; if another template has it, no row
      // is written.
      .onConflict((conflict) =>
        conflict
          .columns(['namespace', 'alias'])
          .doUpdateSet((set) => ({ position: set.ref('template_aliases.position') }))
          .where('template_aliases.template_id', '=', templateID),
      )
      .returning('template_id')
      .executeTakeFirst()
    if (!added) throw nameInUse(name)
  })
}

export function assignTags(
  db: Kysely<Tables>,
  templateID: string,
  buildID: string,
  tags: readonly string[],
  at: number,
): Promise<void> {
  const transaction = db.transaction().setIsolationLevel('read committed')
  return transaction.execute(async (locked) => {
    await lockTemplate(locked, templateID, at)
    const build = await locked
      .selectFrom('template_builds')
      .select('id')
      .where('id', '=', buildID)
      .where('template_id', '=', templateID)
      .executeTakeFirst()
    if (!build) {
      throw new AppError('not_found', `Template '${templateID}' has no build '${buildID}' to tag`)
    }
    await insertAssignments(locked, templateID, buildID, tags, at)
  })
}

/** The template must be locked. */
export async function insertAssignments(
  transaction: Transaction<Tables>,
  templateID: string,
  buildID: string,
  tags: readonly string[],
  at: number,
): Promise<void> {
  if (tags.length === 0) return
  const { last, before } = await transaction
    .selectFrom('template_tags')
    .select(({ fn }) => [fn.max('sequence').as('last'), fn.count<number>('tag').distinct().as('before')])
    .where('template_id', '=', templateID)
    .executeTakeFirstOrThrow()
  const assignments = tags.map((tag, index) => ({
    template_id: templateID,
    sequence: (last ?? 0) + 1 + index,
    tag,
    build_id: buildID,
    assigned_at: at,
  }))
  await transaction.insertInto('template_tags').values(assignments).execute()
  const { after } = await transaction
    .selectFrom('template_tags')
    .select(({ fn }) => fn.count<number>('tag').distinct().as('after'))
    .where('template_id', '=', templateID)
    .executeTakeFirstOrThrow()
  const { tagsPerTemplate } = listLimits
  if (after > tagsPerTemplate && after > before) {
    throw listIsFull(
      `A template can have at most ${tagsPerTemplate} tags: remove those that are no longer used`,
    )
  }
  await forgetOldAssignments(transaction, templateID, tags)
}

/** An assignment to a ready build counts only until the next one. A few are kept for nodes that lack the newest build. */
async function forgetOldAssignments(
  transaction: Transaction<Tables>,
  templateID: string,
  tags: readonly string[],
): Promise<void> {
  const ranked = transaction
    .selectFrom('template_tags as assigned')
    .innerJoin('template_builds as built', 'built.id', 'assigned.build_id')
    .select(({ fn }) => [
      'assigned.sequence',
      fn
        .agg<number>('row_number')
        .over((over) => over.partitionBy('assigned.tag').orderBy('assigned.sequence', 'desc'))
        .as('rank'),
    ])
    .where('assigned.template_id', '=', templateID)
    .where('assigned.tag', 'in', tags)
    .where('built.status', '=', 'ready')
  await transaction
    .deleteFrom('template_tags')
    .where('template_id', '=', templateID)
    .where('sequence', 'in', (where) =>
      where
        .selectFrom(ranked.as('ranked'))
        .select('ranked.sequence')
        .where('ranked.rank', '>', listLimits.assignmentsPerTag),
    )
    .execute()
}

export async function removeTags(
  db: Kysely<Tables>,
  templateID: string,
  tags: readonly string[],
): Promise<void> {
  if (tags.length === 0) return
  await db
    .deleteFrom('template_tags')
    .where('template_id', '=', templateID)
    .where('tag', 'in', tags)
    .execute()
}

export async function listTags(db: Kysely<Tables>, templateID: string): Promise<TagAssignment[]> {
  const rows = await db
    .selectFrom('template_tags')
    .select(['tag', 'build_id', 'assigned_at'])
    .where('template_id', '=', templateID)
    .where('sequence', 'in', (where) =>
      where
        .selectFrom('template_tags as assigned')
        .innerJoin('template_builds as built', 'built.id', 'assigned.build_id')
        .select(({ fn }) => fn.max('assigned.sequence').as('newest'))
        .where('assigned.template_id', '=', templateID)
        .where('built.status', '=', 'ready')
        .groupBy('assigned.tag'),
    )
    .execute()
  const found = rows.map((row) => ({ tag: row.tag, buildID: row.build_id, assignedAt: row.assigned_at }))
  // Sorted here, because PostgreSQL's order of texts depends on the locale of its cluster.
  return found.sort((one, other) => (one.tag < other.tag ? -1 : 1))
}

export function listReadyAssignments(
  db: Kysely<Tables>,
  templateID: string,
  tag?: string,
): Promise<ReadyAssignment[]> {
  return db
    .selectFrom('template_tags as assigned')
    .innerJoin('template_builds as built', 'built.id', 'assigned.build_id')
    .select([
      'assigned.sequence',
      'assigned.tag',
      'assigned.build_id as buildID',
      'assigned.assigned_at as assignedAt',
      'built.created_at as buildCreatedAt',
      'built.finished_at as buildFinishedAt',
    ])
    .where('assigned.template_id', '=', templateID)
    .where('built.status', '=', 'ready')
    .$if(tag !== undefined, (query) => query.where('assigned.tag', '=', tag!))
    .orderBy('assigned.sequence', 'desc')
    .execute()
}
