import { type Kysely, sql } from 'kysely'
import type { LeaseStore } from '../core/event-stores.ts'
import type { Tables } from './tables.ts'

export class SqlLeaseStore implements LeaseStore {
  readonly #db: Kysely<Tables>
  readonly #nodeID: string

  constructor(db: Kysely<Tables>, nodeID: string) {
    this.#db = db
    this.#nodeID = nodeID
  }

  async take(name: string, forMs: number): Promise<boolean> {
    // Read before: a lease that ends in between is taken the next time.
    const now = await this.#now()
    const row = await this.#db
      .insertInto('leases')
      .values({ name, holder: this.#nodeID, until: now + forMs })
      .onConflict((conflict) =>
        conflict
          .column('name')
          .doUpdateSet({ holder: this.#nodeID, until: now + forMs })
          .where((where) =>
            where.or([where('leases.holder', '=', this.#nodeID), where('leases.until', '<', now)]),
          ),
      )
      .returning('holder')
      .executeTakeFirst()
    return row !== undefined
  }

  async release(name: string): Promise<void> {
    await this.#db.deleteFrom('leases').where('name', '=', name).where('holder', '=', this.#nodeID).execute()
  }

  /** SQLite answers with text in UTC and whole seconds, PostgreSQL with a Date. */
  async #now(): Promise<number> {
    const { rows } = await sql<{ now: string | Date }>`select current_timestamp as now`.execute(this.#db)
    const { now } = rows[0]!
    return typeof now === 'string' ? Date.parse(`${now.replace(' ', 'T')}Z`) : now.getTime()
  }
}
