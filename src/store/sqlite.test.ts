import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { sql } from 'kysely'
import { copyEmptyDatabase } from '../../test/support/empty-database.ts'
import { type AppError, isAppError } from '../lib/app-error.ts'
import { openDatabase, openStores, storesOver } from './open-stores.ts'
import { storeSuite } from './store-suite.ts'
import { ownerSuite } from './suite/owners.ts'
import { insertTeam, insertTemplate, vault } from './suite/rows.ts'
import { networksAreSealed } from './suite/sealing.ts'
import { togetherInOrder, togetherOrNotAtAll } from './suite/together.ts'

function emptyFolder(context: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'warren-store-'))
  context.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

storeSuite('SQLite', async (context) => {
  const dataFolder = emptyFolder(context)
  await copyEmptyDatabase(dataFolder)
  return openStores({ url: undefined, dataFolder, vault })
})
ownerSuite('SQLite', async (context) => {
  const shared = { url: undefined, dataFolder: emptyFolder(context), vault }
  return [await openStores({ ...shared, nodeID: 'one' }), await openStores({ ...shared, nodeID: 'other' })]
})

test('commits go to a write-ahead log, and foreign keys and the busy timeout are on', async (context) => {
  const db = await openDatabase({ url: undefined, dataFolder: emptyFolder(context), vault })
  const value = async (name: string) => {
    const { rows } = await sql<Record<string, unknown>>`pragma ${sql.raw(name)}`.execute(db)
    return Object.values(rows[0]!)[0]
  }
  assert.equal(await value('journal_mode'), 'wal')
  // 1 is NORMAL: checkpoints are synced by SQLite, commits by `WalSync`.
  assert.equal(await value('synchronous'), 1)
  assert.equal(await value('foreign_keys'), 1)
  assert.equal(await value('busy_timeout'), 5000)
  await db.destroy()
})

test('a limit is part of the text of a statement, so that SQLite compiles it once', async (context) => {
  const db = await openDatabase({ url: undefined, dataFolder: emptyFolder(context), vault })
  const compiled = db.selectFrom('teams').select('id').where('slug', '=', 'a').limit(7).compile()
  assert.match(compiled.sql, /limit 7$/)
  assert.deepEqual(compiled.parameters, ['a'])
  await db.destroy()
})

test('stored rows exist after reopening, and only the owner may read the files', async (context) => {
  const dataFolder = join(emptyFolder(context), 'new', 'folder')
  const stores = await openStores({ url: undefined, dataFolder, vault })
  const team = await insertTeam(stores)
  for (const name of ['warren.db', 'warren.db-wal', 'warren.db-shm']) {
    assert.equal(statSync(join(dataFolder, name)).mode & 0o777, 0o600, name)
  }
  await stores.close()
  chmodSync(join(dataFolder, 'warren.db'), 0o644)
  const again = await openStores({ url: undefined, dataFolder, vault })
  assert.deepEqual(await again.teams.findTeam(team.slug), team)
  assert.equal(statSync(join(dataFolder, 'warren.db')).mode & 0o777, 0o600)
  await again.close()
})

test('values that node:sqlite would store as NULL are rejected, at any position', async (context) => {
  const db = await openDatabase({ url: undefined, dataFolder: emptyFolder(context), vault })
  for (const bad of [new Date(), { a: 1 }, ['a'], true, undefined, Number.NaN]) {
    const refused = (error: unknown) => isAppError(error, 'internal')
    await assert.rejects(sql`select ${bad}, ${1}`.execute(db), refused, String(bad))
    await assert.rejects(sql`select ${1}, ${bad}`.execute(db), refused, String(bad))
  }
  await db.destroy()
})

test('names are ordered by their positions, not by their rows', async (context) => {
  const db = await openDatabase({ url: undefined, dataFolder: emptyFolder(context), vault })
  const stores = storesOver(db, vault)
  const { templateID } = await insertTemplate(stores)
  const [first, second, third] = ['first', 'second', 'third'].map((alias) => ({ namespace: null, alias }))
  await stores.templates.addName(templateID, first!)
  await stores.templates.addName(templateID, second!)
  await db
    .updateTable('template_aliases')
    .set((set) => ({ position: set('position', '*', -1) }))
    .execute()
  await stores.templates.addName(templateID, third!)
  assert.deepEqual(await stores.templates.namesOf(templateID), [second, first, third])
  assert.deepEqual((await stores.templates.summaryOf(templateID))?.names, [second, first, third])
  await db.destroy()
})

test('parts of a network that may contain credentials are sealed', async (context) => {
  const db = await openDatabase({ url: undefined, dataFolder: emptyFolder(context), vault })
  await networksAreSealed(db)
  await db.destroy()
})

for (const [title, body] of [
  ['statements that are sent together run in order and are committed', togetherInOrder],
  ['statements that are sent together leave nothing behind if one fails', togetherOrNotAtAll],
] as const) {
  test(title, async (context) => {
    const db = await openDatabase({ url: undefined, dataFolder: emptyFolder(context), vault })
    await body(db).finally(() => db.destroy())
  })
}

async function openFailure(dataFolder: string, url?: string): Promise<AppError> {
  try {
    const stores = await openStores({ url, dataFolder, vault })
    await stores.close()
  } catch (error) {
    assert.ok(isAppError(error), String(error))
    return error
  }
  assert.fail('it opened')
}

test('a file that is no database is rejected and not changed, and the message names it', async (context) => {
  const dataFolder = emptyFolder(context)
  const file = join(dataFolder, 'warren.db')
  writeFileSync(file, 'once upon a time '.repeat(1000))
  const failure = await openFailure(dataFolder)
  assert.equal(failure.code, 'internal')
  assert.ok(failure.message.includes(file) && failure.message.includes('restore a backup'))
  assert.equal(statSync(file).size, 17_000)
})

test('a damaged page gives one clear error when it is read', async (context) => {
  const dataFolder = emptyFolder(context)
  const stores = await openStores({ url: undefined, dataFolder, vault })
  for (let count = 0; count < 200; count++) await insertTeam(stores)
  await stores.close()
  const file = join(dataFolder, 'warren.db')
  const raw = new DatabaseSync(file)
  const { rootpage } = raw.prepare("select rootpage from sqlite_schema where name = 'teams'").get() as {
    rootpage: number
  }
  const { page_size } = raw.prepare('pragma page_size').get() as { page_size: number }
  raw.close()
  const handle = await open(file, 'r+')
  await handle.write(Buffer.alloc(page_size, 0xff), 0, page_size, (rootpage - 1) * page_size)
  await handle.close()
  const damaged = await openStores({ url: undefined, dataFolder, vault })
  await assert.rejects(damaged.teams.listTeams(), (error) => {
    assert.ok(isAppError(error, 'internal'))
    return error.message.includes('damaged')
  })
  await damaged.close()
})

test('a folder in place of the file is rejected as unavailable', async (context) => {
  const dataFolder = emptyFolder(context)
  mkdirSync(join(dataFolder, 'warren.db'))
  assert.equal((await openFailure(dataFolder)).code, 'unavailable')
})

test('an unknown kind of database URL is rejected with the remedy, without its secrets, and nothing is created', async (context) => {
  const dataFolder = emptyFolder(context)
  const failure = await openFailure(dataFolder, 'mysql://root:secret@127.0.0.1/x')
  assert.equal(failure.code, 'invalid_argument')
  assert.match(failure.message, /postgres:\/\//)
  assert.doesNotMatch(failure.message, /secret/)
  assert.equal(existsSync(join(dataFolder, 'warren.db')), false)
})

test('a database that another process locks for too long gives unavailable, with a retry', async (context) => {
  const dataFolder = emptyFolder(context)
  const db = await openDatabase({ url: undefined, dataFolder, vault })
  await sql`pragma busy_timeout = 1`.execute(db)
  const other = new DatabaseSync(join(dataFolder, 'warren.db'))
  other.exec('begin immediate')
  const write = db.deleteFrom('teams').execute()
  await assert.rejects(write, (error) => isAppError(error, 'unavailable') && error.retry?.should === true)
  other.exec('rollback')
  other.close()
  await db.deleteFrom('teams').execute()
  await db.destroy()
})
