import type { Kysely } from 'kysely'
import type { Tables } from '../database/tables.ts'

/** True if no node may sweep objects from which a sandbox is resumed (`keepsArriving` of `NodeFacts`). */
export async function allKeepArriving(db: Kysely<Tables>): Promise<boolean> {
  const other = await db
    .selectFrom('nodes')
    .select('id')
    .where('facts', 'not like', '%"keepsArriving":true%')
    .limit(1)
    .executeTakeFirst()
  return other === undefined
}
