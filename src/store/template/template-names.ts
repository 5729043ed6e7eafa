import { type Kysely, sql } from 'kysely'
import type { TemplateName } from '../../core/template/template.ts'
import type { NamedTemplate } from '../../core/template/template-store.ts'
import type { Tables } from '../database/tables.ts'
import { templateOf } from './template-row.ts'

/** One statement, because every create begins with it. */
export async function findNamed(
  db: Kysely<Tables>,
  names: readonly TemplateName[],
  templateID: string | undefined,
): Promise<NamedTemplate | undefined> {
  if (names.length === 0 && templateID === undefined) return undefined
  const row = await db
    .selectFrom(({ selectFrom }) => {
      const byName = names.map(({ namespace, alias }, rank) =>
        selectFrom('template_aliases')
          .select(['template_id', sql.lit(rank).as('rank')])
          .where('namespace', '=', namespace ?? '')
          .where('alias', '=', alias),
      )
      const byID = selectFrom('templates')
        .select(['id as template_id', sql.lit(names.length).as('rank')])
        .where('id', '=', templateID ?? '')
      const [first, ...rest] = templateID === undefined ? byName : [...byName, byID]
      return rest.reduce((all, one) => all.unionAll(one), first!).as('found')
    })
    .innerJoin('templates', 'templates.id', 'found.template_id')
    .selectAll('templates')
    .select(({ selectFrom }) =>
      selectFrom('template_aliases')
        .select('alias')
        .whereRef('template_aliases.template_id', '=', 'templates.id')
        // Names without a namespace come first.
        .orderBy(sql`case when namespace = '' then 0 else 1 end`)
        .orderBy('position')
        .limit(sql.lit(1))
        .as('first_alias'),
    )
    .orderBy('found.rank')
    .limit(sql.lit(1))
    .executeTakeFirst()
  return row && { template: templateOf(row), alias: row.first_alias }
}
