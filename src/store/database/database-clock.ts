import { type Kysely, PostgresAdapter, type RawBuilder, sql } from 'kysely'
import type { Tables } from './tables.ts'

/** Milliseconds by the clock of the database, which all nodes share, when the statement runs. */
export function databaseNow(db: Kysely<Tables>): RawBuilder<number> {
  const isPostgres = db.getExecutor().adapter instanceof PostgresAdapter
  return isPostgres
    ? sql<number>`cast(extract(epoch from clock_timestamp()) * 1000 as bigint)`
    : sql<number>`cast(unixepoch('subsec') * 1000 as integer)`
}
