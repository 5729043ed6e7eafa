import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { Kysely, sql } from 'kysely'
import { isAppError } from '../lib/app-error.ts'
import { lastWithoutPhase } from './database/schema-requirement.ts'
import { sqliteDialect } from './database/sqlite.ts'
import type { Tables } from './database/tables.ts'
import { migrate, migrationsWith } from './migrate.ts'
import { openDatabase, openStores } from './open-stores.ts'
import { firstBreaking, statementsOf } from './suite/expanding.ts'
import {
  addsTable,
  olderWorksBesideNewer,
  otherBranchIsRejected,
  tooOldIsRejected,
} from './suite/newer-build.ts'
import { vault } from './suite/rows.ts'
import { hidden } from './suite/sealing.ts'
import { upgradeWithoutSnapshots } from './suite/upgrade.ts'

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

function emptyDatabase(context: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-migrate-'))
  context.after(() => rmSync(folder, { recursive: true, force: true }))
  return sqliteDialect(join(folder, 'database'), async () => {})
}

async function hasTable(db: Kysely<never>, name: string): Promise<boolean> {
  return (await db.introspection.getTables()).some((table) => table.name === name)
}

test('every migration file is in the list, under its own name', () => {
  const files = readdirSync(join(import.meta.dirname, 'migrations')).map((name) => name.replace('.ts', ''))
  assert.deepEqual(Object.keys(known).sort(), files.sort())
})

test('a database of a newer build that does not say its phase is rejected, with the unknown migration', async (context) => {
  const { options, db } = await open(context)
  await migrate(db, { ...known, '9999-later': addsTable() })
  await assert.rejects(openStores(options), (error) => {
    assert.ok(isAppError(error, 'internal'))
    return error.message.includes('9999-later') && error.message.includes('newer Warren')
  })
})

const newerBuilds: [title: string, body: (db: Kysely<Tables>) => Promise<void>][] = [
  [
    'an older Warren works, and starts again, beside a newer one whose migrations only expand',
    olderWorksBesideNewer,
  ],
  ['a Warren that is older than a contracting migration allows is rejected', tooOldIsRejected],
  ['a database that another branch has migrated is rejected', otherBranchIsRejected],
]
for (const [title, body] of newerBuilds) {
  test(title, async (context) => {
    const db = new Kysely<Tables>({ dialect: emptyDatabase(context) })
    await body(db).finally(() => db.destroy())
  })
}

test('every new migration says its phase, and a contracting one names an earlier migration', () => {
  const steps = Object.entries(known)
  const unsaid = steps.filter(([name, { phase }]) => name > lastWithoutPhase && phase === undefined)
  assert.deepEqual(
    unsaid.map(([name]) => name),
    [],
    'export a `phase`: see "Add a migration" in CONTRIBUTING.md',
  )
  for (const [name, { phase }] of steps) {
    if (typeof phase !== 'object') continue
    assert.ok(phase.contract < name && Object.hasOwn(known, phase.contract), name)
  }
})

test('migrations that say that they expand contain nothing that breaks an older Warren', async (context) => {
  const statements = await statementsOf(known, emptyDatabase(context))
  for (const [name, { phase }] of Object.entries(known)) {
    if (phase === 'expand') assert.equal(firstBreaking(statements.get(name)!), undefined, name)
  }
  const breaking = (name: string) => firstBreaking(statements.get(name)!)
  for (const name of ['0022-departures', '0025-gpus', '0026-older-clients'])
    assert.equal(breaking(name), undefined)
  assert.match(breaking('0007-owners')!, /^drop table build_cache/)
  assert.match(breaking('0024-auto-pause')!, /^drop index sandboxes_due/)
})

test('statements that break an older Warren are found', () => {
  const harmless = [
    'create table later (id text primary key, team_id text references teams (id) on delete cascade)',
    'create unique index one on later (id)',
    'alter table teams add column size integer default 0 not null',
    'update teams set size = 1',
    'alter table later add column size integer not null',
  ]
  assert.equal(firstBreaking(harmless), undefined)
  for (const text of [
    'drop table teams',
    'drop index one',
    'alter table teams rename to groups',
    'alter table teams drop column name',
    'alter table teams alter column name set not null',
    'alter table teams add column size integer not null',
    'alter table teams add column size integer unique',
    'create unique index one on teams (name)',
    'create table other (team_id text references teams (id))',
    'create trigger one after insert on teams begin select 1; end',
    'update sandboxes set options = 1',
    'delete from teams',
  ])
    assert.equal(firstBreaking([...harmless, text]), text)
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
  const failing = migrate(db, { ...known, '9998-later': addsTable(), '9999-fails': fails })
  await assert.rejects(failing, (error) => isAppError(error, 'internal'))
  const plain = db as unknown as Kysely<never>
  assert.equal(await hasTable(plain, 'half'), false)
  assert.equal(await hasTable(plain, 'later'), false)
  await migrate(db, { ...known, '9998-later': addsTable() })
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
