/** Objects that are about to be removed from the object store. Each node has its own rows. */
import { type Kysely, sql, type Transaction } from 'kysely'
import type { Tables } from '../database/tables.ts'

/** Limits a statement to the number of values that an engine takes. */
const keysPerQuery = 1000
/** The owner of keys that a forgotten node condemned: the next sweep of any node handles them. */
const nobody = ''

export class CondemnedObjects {
  readonly #db: Kysely<Tables>
  readonly #nodeID: string

  constructor(db: Kysely<Tables>, nodeID: string) {
    this.#db = db
    this.#nodeID = nodeID
  }

  async condemn(keys: readonly string[], at: number): Promise<void> {
    for (const some of inParts(keys)) {
      const rows = some.map((key) => ({ key, node_id: this.#nodeID, at }))
      await this.#db
        .insertInto('condemned_objects')
        .values(rows)
        .onConflict((conflict) => conflict.columns(['key', 'node_id']).doUpdateSet({ at }))
        .execute()
      // Removed last, so that the keys are condemned at every moment.
      await this.#remove(some, nobody)
    }
  }

  async find(keys: readonly string[]): Promise<string[]> {
    const found = new Set<string>()
    for (const some of inParts(keys)) {
      const rows = await this.#db
        .selectFrom('condemned_objects')
        .select('key')
        .where('key', 'in', some)
        .execute()
      for (const { key } of rows) found.add(key)
    }
    return [...found]
  }

  async list(): Promise<{ key: string; at: number }[]> {
    const rows = await this.#db
      .selectFrom('condemned_objects')
      .select(['key', 'at'])
      .where('node_id', 'in', [this.#nodeID, nobody])
      .orderBy('key')
      .execute()
    return rows.map(({ key, at }) => ({ key, at }))
  }

  async acquit(keys: readonly string[]): Promise<void> {
    for (const some of inParts(keys)) await this.#remove(some, this.#nodeID)
  }

  async #remove(keys: readonly string[], nodeID: string): Promise<void> {
    await this.#db
      .deleteFrom('condemned_objects')
      .where('node_id', '=', nodeID)
      .where('key', 'in', keys)
      .execute()
  }
}

/** Call it within the transaction that forgets the node. */
export async function disownCondemned(transaction: Transaction<Tables>, nodeID: string): Promise<void> {
  await transaction
    .insertInto('condemned_objects')
    .columns(['key', 'node_id', 'at'])
    .expression((from) =>
      from
        .selectFrom('condemned_objects')
        .select(['key', sql.lit(nobody).as('node_id'), 'at'])
        .where('node_id', '=', nodeID),
    )
    .onConflict((conflict) => conflict.columns(['key', 'node_id']).doNothing())
    .execute()
  await transaction.deleteFrom('condemned_objects').where('node_id', '=', nodeID).execute()
}

function* inParts(keys: readonly string[]): Generator<string[]> {
  for (let start = 0; start < keys.length; start += keysPerQuery)
    yield keys.slice(start, start + keysPerQuery)
}
