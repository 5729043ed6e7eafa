import { type Kysely, sql } from 'kysely'
import type { LeaseStore } from '../../core/ports/lease-store.ts'
import { databaseNow } from '../database/database-clock.ts'
import type { Tables } from '../database/tables.ts'

export class SqlLeaseStore implements LeaseStore {
  readonly #db: Kysely<Tables>
  readonly #nodeID: string

  constructor(db: Kysely<Tables>, nodeID: string) {
    this.#db = db
    this.#nodeID = nodeID
  }

  async acquire(name: string, forMs: number): Promise<boolean> {
    const now = databaseNow(this.#db)
    const until = sql<number>`${now} + ${forMs}`
    const row = await this.#db
      .insertInto('leases')
      .values({ name, holder: this.#nodeID, until })
      .onConflict((conflict) =>
        conflict
          .column('name')
          .doUpdateSet({ holder: this.#nodeID, until })
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
}
