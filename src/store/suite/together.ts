/** Statements that are sent together, on both engines. */
import assert from 'node:assert/strict'
import { type Kysely, sql } from 'kysely'
import { isAppError } from '../../lib/app-error.ts'
import type { Tables } from '../database/tables.ts'
import { runAndCommit, runTogether } from '../database/together.ts'

const sharedValue = async (db: Kysely<Tables>, name: string): Promise<string | undefined> =>
  (await db.selectFrom('shared_values').select('value').where('name', '=', name).executeTakeFirst())?.value

const inserting = (db: Kysely<Tables>, name: string) =>
  db.insertInto('shared_values').values({ name, value: name })

/** Each statement sees those before it, and all of them are committed. */
export async function togetherInOrder(db: Kysely<Tables>): Promise<void> {
  const results = await db.transaction().execute(async (transaction) => {
    const read = transaction.selectFrom('shared_values').select('value').where('name', 'in', ['one', 'two'])
    const [before, , between] = await runTogether(transaction, [read, inserting(transaction, 'one'), read])
    const [, after] = await runAndCommit(transaction, [inserting(transaction, 'two'), read.orderBy('name')])
    return [before, between, after].map(({ rows }) => rows.map(({ value }) => value))
  })
  assert.deepEqual(results, [[], ['one'], ['one', 'two']])
  assert.deepEqual([await sharedValue(db, 'one'), await sharedValue(db, 'two')], ['one', 'two'])
}

/** If one of them fails, the transaction leaves nothing behind, and the connection can be used again. */
export async function togetherOrNotAtAll(db: Kysely<Tables>): Promise<void> {
  await inserting(db, 'taken').execute()
  for (const run of [runTogether, runAndCommit]) {
    const failing = db.transaction().execute(async (transaction) => {
      await inserting(transaction, 'first').execute()
      await run(
        transaction,
        ['second', 'taken', 'third'].map((name) => inserting(transaction, name)),
      )
    })
    await assert.rejects(failing, (error) => isAppError(error, 'already_exists'))
    for (const name of ['first', 'second', 'third']) assert.equal(await sharedValue(db, name), undefined)
  }
  const { rows } = await sql<{ one: number }>`select 1 as one`.execute(db)
  assert.equal(rows[0]?.one, 1)
}
