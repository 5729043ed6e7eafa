import type { Kysely } from 'kysely'
import type { SharedValueStore } from '../../core/ports/shared-value-store.ts'
import type { Tables } from '../database/tables.ts'

export class SqlSharedValueStore implements SharedValueStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async read(name: string): Promise<string | undefined> {
    const query = this.#db.selectFrom('shared_values').select('value').where('name', '=', name)
    return (await query.executeTakeFirst())?.value
  }

  async write(name: string, value: string): Promise<void> {
    await this.#db
      .insertInto('shared_values')
      .values({ name, value })
      .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
      .execute()
  }

  async remove(name: string): Promise<void> {
    await this.#db.deleteFrom('shared_values').where('name', '=', name).execute()
  }
}
