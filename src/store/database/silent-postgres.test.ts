/** A PostgreSQL that stands still, while the kernel of its machine still accepts connections. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Kysely, sql } from 'kysely'
import { until } from '../../../test/support/domain.ts'
import { postgresForTests } from '../../../test/support/postgres.ts'
import { isAppError } from '../../lib/app-error.ts'
import { openDatabase } from '../open-stores.ts'
import { vault } from '../suite/rows.ts'
import { postgresDialect } from './postgres.ts'
import type { Tables } from './tables.ts'

const { server, ...postgres } = postgresForTests()
const options = { timeout: 120_000, ...postgres.options }

const isUnavailable = (error: unknown) => isAppError(error, 'unavailable')
const ask = (db: Kysely<Tables>) => sql`select 1`.execute(db)

test(
  'statements on a server that stands still are rejected, and succeed when it goes on',
  options,
  async () => {
    const url = await server().createDatabase()
    const db = await openDatabase({ url, dataFolder: '/nowhere', vault })
    await ask(db)
    server().freeze('all')
    try {
      const inTransaction = db.transaction().execute(async (transaction) => {
        await sql`select 1`.execute(transaction)
      })
      await Promise.all([
        assert.rejects(ask(db), isUnavailable),
        assert.rejects(inTransaction, isUnavailable),
        assert.rejects(ask(db), isUnavailable),
      ])
      await assert.rejects(ask(db), isUnavailable, 'the next one')
      const other = new Kysely<Tables>({ dialect: postgresDialect(url) })
      await assert.rejects(ask(other), isUnavailable, 'one that has no connection yet')
      await other.destroy()
    } finally {
      server().thaw()
    }
    await until(() =>
      ask(db).then(
        () => true,
        () => false,
      ),
    )
    await db.destroy()
  },
)

test('a statement whose session alone stands still is rejected when it takes too long', options, async () => {
  const dialect = postgresDialect(await server().createDatabase(), { limit: { statementMs: 500 } })
  const db = new Kysely<Tables>({ dialect })
  await ask(db)
  server().freeze('sessions')
  try {
    await assert.rejects(ask(db), isUnavailable)
    await ask(db)
  } finally {
    server().thaw()
  }
  await db.destroy()
})

test('a process that stands still in a transaction does not lock others out for long', options, async () => {
  const db = await openDatabase({ url: await server().createDatabase(), dataFolder: '/nowhere', vault })
  const { rows } = await sql`show idle_in_transaction_session_timeout`.execute(db)
  assert.deepEqual(rows, [{ idle_in_transaction_session_timeout: '10s' }])
  await db.destroy()
})
