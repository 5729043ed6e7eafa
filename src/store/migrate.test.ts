import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { Kysely, sql } from 'kysely'
import { isAppError } from '../lib/app-error.ts'
import { migrate, migrationsWith } from './migrate.ts'
import { openDatabase, openStores } from './open-stores.ts'
import { sqliteDialect } from './sqlite.ts'
import { aNode } from './suite/nodes.ts'
import { insertSandboxIn, insertTeam, vault } from './suite/rows.ts'
import { hidden } from './suite/sealing.ts'
import { upgradeWithoutSnapshots } from './suite/upgrade.ts'
import type { Tables } from './tables.ts'

const known = migrationsWith(vault)

async function open(context: TestContext, openAt = openDatabase) {
  const dataFolder = mkdtempSync(join(tmpdir(), 'warren-migrate-'))
  const options = { url: undefined, dataFolder, vault }
  const db = await openAt(options)
  context.after(async () => {
    await db.destroy()
    rmSync(dataFolder, { recursive: true, force: true })
  })
  return { options, db }
}

const addsTable = {
  up: (db: Kysely<never>) => db.schema.createTable('later').addColumn('id', 'text').execute(),
}

async function hasTable(db: Kysely<never>, name: string): Promise<boolean> {
  return (await db.introspection.getTables()).some((table) => table.name === name)
}

test('every migration file is in the list, under its own name', () => {
  const files = readdirSync(join(import.meta.dirname, 'migrations')).map((name) => name.replace('.ts', ''))
  assert.deepEqual(Object.keys(known).sort(), files.sort())
})

test('a database of a newer build is rejected, with the migration that this build does not know', async (context) => {
  const { options, db } = await open(context)
  await migrate(db, { ...known, '9999-later': addsTable })
  await assert.rejects(openStores(options), (error) => {
    assert.ok(isAppError(error, 'internal'))
    return error.message.includes('9999-later') && error.message.includes('newer Warren')
  })
})

test('a running Warren keeps working beside a newer one, whose migrations only add', async (context) => {
  const { options, db } = await open(context)
  const stores = await openStores(options)
  context.after(() => stores.close())
  const addsColumns = {
    async up(part: Kysely<never>) {
      for (const table of await part.introspection.getTables())
        await part.schema.alterTable(table.name).addColumn('later', 'text').execute()
    },
  }
  await migrate(db, { ...known, '9998-later': addsTable, '9999-columns': addsColumns })
  const team = await insertTeam(stores)
  const { sandboxID, state } = await insertSandboxIn(stores, team.teamID, 'running')
  assert.equal(state, 'running')
  assert.equal((await stores.sandboxes.find(sandboxID))?.sandboxID, sandboxID)
  await stores.nodes.join(aNode('older'))
  assert.deepEqual(
    (await stores.nodes.list()).map(({ nodeID }) => nodeID),
    ['older'],
  )
})

test('opening twice changes nothing', async (context) => {
  const { db } = await open(context)
  const executed = async () => (await sql`select name, timestamp from kysely_migration`.execute(db)).rows
  const before = await executed()
  await migrate(db, known)
  assert.deepEqual(await executed(), before)
  assert.equal(before.length, Object.keys(known).length)
})

test('a migration that fails leaves nothing of itself or of those that ran with it', async (context) => {
  const { db } = await open(context)
  const fails = {
    up: async (part: Kysely<never>) => {
      await part.schema.createTable('half').addColumn('id', 'text').execute()
      throw new Error('cut off')
    },
  }
  const failing = migrate(db, { ...known, '9998-later': addsTable, '9999-fails': fails })
  await assert.rejects(failing, (error) => isAppError(error, 'internal'))
  const plain = db as unknown as Kysely<never>
  assert.equal(await hasTable(plain, 'half'), false)
  assert.equal(await hasTable(plain, 'later'), false)
  await migrate(db, { ...known, '9998-later': addsTable })
  assert.equal(await hasTable(plain, 'later'), true)
})

test('an upgrade keeps the rows of a database from before snapshots, and the file no longer contains plain secrets', async (context) => {
  const { db, options } = await open(context, async ({ dataFolder }) => {
    return new Kysely<Tables>({ dialect: sqliteDialect(join(dataFolder, 'warren.db')) })
  })
  await upgradeWithoutSnapshots(db)
  await db.destroy()
  for (const name of readdirSync(options.dataFolder)) {
    assert.ok(!readFileSync(join(options.dataFolder, name)).includes(hidden), name)
  }
})
