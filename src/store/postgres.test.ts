import assert from 'node:assert/strict'
import { after, afterEach, test } from 'node:test'
import { Kysely, sql } from 'kysely'
import { postgresForTests } from '../../test/support/postgres.ts'
import { legalTransitions, type SandboxState } from '../core/sandbox/row/sandbox.ts'
import { defaultTeamLimits } from '../core/team/team.ts'
import { isAppError } from '../lib/app-error.ts'
import { commitsLater } from './database/commits-later.ts'
import { postgresDialect } from './database/postgres.ts'
import type { Tables } from './database/tables.ts'
import { migrate, migrationsWith } from './migrate.ts'
import { soleNode } from './node/owners.ts'
import { openDatabase, openStores, storesOver } from './open-stores.ts'
import { storeSuite } from './store-suite.ts'
import type { Stores } from './stores.ts'
import { addsTable, olderWorksBesideNewer, tooOldIsRejected } from './suite/newer-build.ts'
import { aNode } from './suite/nodes.ts'
import { ownerSuite } from './suite/owners.ts'
import { aSandbox, haveTemplate, insertTeam, vault } from './suite/rows.ts'
import { networksAreSealed } from './suite/sealing.ts'
import { togetherInOrder, togetherOrNotAtAll } from './suite/together.ts'
import { upgradeWithoutSnapshots } from './suite/upgrade.ts'

const dataFolder = '/nowhere'
const opened: Stores[] = []

// Before the server stops.
after(() => Promise.all(opened.map((stores) => stores.close())))
const { options, server } = postgresForTests()
afterEach(() => server()?.takeBackDatabases())

/** Stores over one database, the same for all tests of a suite; to close them removes its rows. */
function sharedStores(...nodeIDs: string[]): () => Promise<Stores[]> {
  let shared: Promise<Stores[]> | undefined
  const open = async () => {
    const { url, removeRows } = await server().createSharedDatabase()
    const stores: Stores[] = []
    for (const nodeID of nodeIDs) stores.push(await openStores({ url, dataFolder, vault, nodeID }))
    opened.push(...stores)
    return stores.map((one) => ({ ...one, close: removeRows }))
  }
  return () => {
    shared ??= open()
    return shared
  }
}

const storesOfOne = sharedStores(soleNode)
storeSuite('PostgreSQL', async () => (await storesOfOne())[0]!, options)
const storesOfTwo = sharedStores('one', 'other')
ownerSuite('PostgreSQL', async () => (await storesOfTwo()) as [Stores, Stores], options)

test('two servers over one database together stay within a limit', options, async () => {
  const url = await server().createDatabase()
  // Both bring the empty database up to date at the same time.
  const both = await Promise.all([
    openStores({ url, dataFolder, vault }),
    openStores({ url, dataFolder, vault }),
  ])
  const team = await insertTeam(both[0])
  await haveTemplate(both[0])
  const tenOnly = { ...defaultTeamLimits, maxSandboxes: 10 }
  const creates = Array.from({ length: 50 }, (_, index) =>
    both[index % 2]!.sandboxes.insertWithinLimits(aSandbox(team.teamID), tenOnly),
  )
  assert.equal((await Promise.all(creates)).filter(({ inserted }) => inserted).length, 10)
  const states = Object.keys(legalTransitions) as SandboxState[]
  assert.equal(await both[1].sandboxes.count({ teamID: team.teamID, states }), 10)
  await Promise.all(both.map((stores) => stores.close()))
})

test(
  'no more connections are open at once than allowed, and every statement gets its turn',
  options,
  async () => {
    const db = await openDatabase({ url: await server().createDatabase(), connections: 2, dataFolder, vault })
    const open = sql<{ open: number }>`select count(*) as open, pg_sleep(0.01) from pg_stat_activity
    where datname = current_database() and backend_type = 'client backend'`
    const seen = await Promise.all(Array.from({ length: 20 }, () => open.execute(db)))
    assert.equal(Math.max(...seen.map(({ rows }) => rows[0]!.open)), 2)
    await db.destroy()
  },
)

test('values that pg would turn into text are rejected', options, async () => {
  const db = await openDatabase({ url: await server().createDatabase(), dataFolder, vault })
  for (const bad of [new Date(), { a: 1 }, ['a'], undefined, Number.NaN]) {
    const query = sql`select ${bad}`.execute(db)
    await assert.rejects(query, (error) => isAppError(error, 'internal'), String(bad))
  }
  await db.destroy()
})

test(
  'connections that the server closes give unavailable, and the next query works again',
  options,
  async () => {
    const url = await server().createDatabase()
    const db = await openDatabase({ url, dataFolder, vault })
    const endAll = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'warren'"
    const cutOff = db.transaction().execute(async (transaction) => {
      await transaction.selectFrom('teams').selectAll().execute()
      await server().execute(endAll)
      await transaction.selectFrom('teams').selectAll().execute()
    })
    await assert.rejects(cutOff, (error) => {
      assert.ok(isAppError(error, 'unavailable'))
      assert.equal(error.message, 'The database cannot be reached; try again in a moment.')
      return /WARREN_DATABASE_URL/.test(String(error.cause))
    })
    assert.deepEqual(await db.selectFrom('teams').selectAll().execute(), [])
    await db.destroy()
  },
)

test('a missing database, user or server gives unavailable, with what to check', options, async () => {
  const url = await server().createDatabase()
  const refused = [
    url.replace(/\w+$/, 'no_such_database'),
    url.replace('warren@', 'nobody-we-know:secret@'),
    'postgres://warren:secret@127.0.0.1:1/warren',
  ]
  for (const bad of refused) {
    await assert.rejects(openStores({ url: bad, dataFolder, vault }), (error) => {
      assert.ok(isAppError(error, 'unavailable'), String(error))
      assert.doesNotMatch(error.message, /secret/)
      return error.message.includes('WARREN_DATABASE_URL')
    })
  }
})

test('an invalid database URL is rejected with the expected form', async () => {
  await assert.rejects(openStores({ url: 'postgres://warren:se cret@[::', dataFolder, vault }), (error) => {
    assert.ok(isAppError(error, 'invalid_argument'), String(error))
    assert.doesNotMatch(error.message, /cret/)
    return error.message.includes('postgres://user:password@host')
  })
})

for (const [title, body] of [
  [
    'an older Warren works, and starts again, beside a newer one whose migrations only expand',
    olderWorksBesideNewer,
  ],
  ['a Warren that is older than a contracting migration allows is rejected', tooOldIsRejected],
] as const) {
  test(title, options, async () => {
    const db = new Kysely<Tables>({ dialect: postgresDialect(await server().createDatabase()) })
    await body(db).finally(() => db.destroy())
  })
}

test('two builds that start at once both work with the database', options, async () => {
  const url = await server().createDatabase()
  const known = migrationsWith(vault)
  const dbs = Array.from({ length: 4 }, () => new Kysely<Tables>({ dialect: postgresDialect(url) }))
  const newer = { ...known, '9999-later': addsTable('expand') }
  const started = await Promise.allSettled(dbs.map((db, index) => migrate(db, index % 2 ? newer : known)))
  await Promise.all(dbs.map((db) => db.destroy()))
  assert.deepEqual(
    started.map(({ status }) => status),
    dbs.map(() => 'fulfilled'),
  )
})

test(
  'an upgrade keeps the rows of a database from before snapshots, and seals plain secrets',
  options,
  async () => {
    const db = new Kysely<Tables>({ dialect: postgresDialect(await server().createDatabase()) })
    await upgradeWithoutSnapshots(db)
    await db.destroy()
  },
)

test('parts of a network that may contain credentials are sealed', options, async () => {
  const db = await openDatabase({ url: await server().createDatabase(), dataFolder, vault })
  await networksAreSealed(db)
  await db.destroy()
})

for (const [title, body] of [
  ['statements that are sent together run in order and are committed', togetherInOrder],
  ['statements that are sent together leave nothing behind if one fails', togetherOrNotAtAll],
] as const) {
  test(title, options, async () => {
    const db = await openDatabase({ url: await server().createDatabase(), connections: 1, dataFolder, vault })
    await body(db).finally(() => db.destroy())
  })
}

test('statements go on after another Warren has added a column to their table', options, async () => {
  const url = await server().createDatabase()
  const db = await openDatabase({ url, connections: 1, dataFolder, vault })
  const read = (from: Kysely<Tables>) => from.selectFrom('teams').selectAll().where('id', '=', 'no').execute()
  for (let time = 0; time < 5; time++) await read(db)
  const { rows } = await sql<{ name: string }>`select name from pg_prepared_statements
    where statement like '%from "teams"%'`.execute(db)
  assert.equal(rows.length, 1, 'no statement was prepared')
  const addColumn = (name: string) => db.schema.alterTable('teams').addColumn(name, 'text').execute()
  await addColumn('first_later')
  assert.deepEqual(await read(db), [])
  for (let time = 0; time < 5; time++) await read(db)
  await addColumn('second_later')
  // What a transaction did before is undone, so all of it must be tried again.
  const again = () => db.transaction().execute(read)
  await assert.rejects(again(), (error) => isAppError(error, 'unavailable'))
  assert.deepEqual(await again(), [])
  await db.destroy()
})

test('only a sign of life is answered before it is on disk', options, async () => {
  const db = await openDatabase({ url: await server().createDatabase(), connections: 1, dataFolder, vault })
  const { nodes } = storesOver(db, vault)
  const node = aNode('one')
  await nodes.join(node)
  assert.equal((await nodes.renew(node))?.status, 'ready')
  const setting = sql<{ synchronous_commit: string }>`show synchronous_commit`
  const during = sql<{
    set: string
  }>`select ${commitsLater(db)} as set, current_setting('synchronous_commit')`
  assert.equal((await during.execute(db)).rows[0]?.set, 'off')
  assert.equal((await setting.execute(db)).rows[0]?.synchronous_commit, 'on')
  await db.destroy()
})

test('times and counts are returned as numbers', options, async () => {
  const url = await server().createDatabase()
  const db = await openDatabase({ url, dataFolder, vault })
  const { rows } = await sql`select 1700000000000::int8 as moment, count(*) as total from teams`.execute(db)
  assert.deepEqual({ ...(rows[0] as object) }, { moment: 1_700_000_000_000, total: 0 })
  await db.destroy()
})
