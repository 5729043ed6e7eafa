import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Tables } from './tables.ts'
import { isPostgres } from './together.ts'

/**
 * Returned by a statement that is a transaction of its own, it lets PostgreSQL answer before the disk has the commit. Only
 * for rows that are written again anyway and that nobody promised to anybody: a crash of PostgreSQL undoes what was written
 * in the last half second.
 */
export const commitsLater = (db: Kysely<Tables>): RawBuilder<unknown> =>
  isPostgres(db) ? sql`set_config('synchronous_commit', 'off', true)` : sql`null`
