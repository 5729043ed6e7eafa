import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Kysely, sql } from 'kysely'
import { isAppError } from '../../lib/app-error.ts'
import { sqliteDialect } from './sqlite.ts'
import { logOf } from './wal-sync.ts'

type Notes = { notes: { text: string } }

/** A database whose syncs end when the test lets them. */
async function openNotes(context: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-wal-'))
  const syncs: PromiseWithResolvers<void>[] = []
  let isBlocked = false
  const sync = async () => {
    if (!isBlocked) return
    const blocked = Promise.withResolvers<void>()
    syncs.push(blocked)
    await blocked.promise
  }
  const db = new Kysely<Notes>({ dialect: sqliteDialect(join(folder, 'notes.db'), sync) })
  context.after(async () => {
    await db.destroy()
    rmSync(folder, { recursive: true, force: true })
  })
  await sql`create table notes (text text)`.execute(db)
  isBlocked = true
  const add = (text: string) => db.insertInto('notes').values({ text }).execute()
  const all = () => db.selectFrom('notes').select('text').execute()
  return { db, syncs, add, all }
}

function watched<T>(work: Promise<T>) {
  const state = { isOver: false, work }
  const end = () => {
    state.isOver = true
  }
  work.then(end, end)
  return state
}

async function untilSyncs(syncs: readonly unknown[], count: number): Promise<void> {
  while (syncs.length < count) await nextTurn()
}

test('a commit resolves once it is on disk, and the event loop runs meanwhile', async (context) => {
  const { syncs, add } = await openNotes(context)
  const written = watched(add('one'))
  await untilSyncs(syncs, 1)
  for (let turn = 0; turn < 5; turn++) await nextTurn()
  assert.equal(written.isOver, false)
  syncs[0]!.resolve()
  await written.work
})

test('a transaction syncs once, at its end', async (context) => {
  const { db, syncs, add } = await openNotes(context)
  const both = watched(
    db.transaction().execute(async (transaction) => {
      await transaction.insertInto('notes').values({ text: 'one' }).execute()
      await transaction.insertInto('notes').values({ text: 'two' }).execute()
      assert.equal(syncs.length, 0)
    }),
  )
  await untilSyncs(syncs, 1)
  assert.equal(both.isOver, false)
  syncs[0]!.resolve()
  await both.work
  const next = add('three')
  await untilSyncs(syncs, 2)
  syncs[1]!.resolve()
  await next
})

test('commits that are made during a sync share the next one', async (context) => {
  const { syncs, add } = await openNotes(context)
  const first = watched(add('one'))
  await untilSyncs(syncs, 1)
  const others = ['two', 'three', 'four'].map((text) => watched(add(text)))
  for (let turn = 0; turn < 5; turn++) await nextTurn()
  syncs[0]!.resolve()
  await first.work
  await untilSyncs(syncs, 2)
  assert.ok(others.every(({ isOver }) => !isOver))
  syncs[1]!.resolve()
  await Promise.all(others.map(({ work }) => work))
  assert.equal(syncs.length, 2)
})

test('a read sees only commits that are on disk', async (context) => {
  const { syncs, add, all } = await openNotes(context)
  assert.deepEqual(await all(), [])
  const written = add('one')
  await untilSyncs(syncs, 1)
  const read = watched(all())
  for (let turn = 0; turn < 5; turn++) await nextTurn()
  assert.equal(read.isOver, false)
  syncs[0]!.resolve()
  assert.deepEqual(
    (await read.work).map(({ text }) => text),
    ['one'],
  )
  await written
  assert.equal((await all()).length, 1)
  assert.equal(syncs.length, 1)
})

test('after a failed sync all later commits fail, because they may depend on a lost one', async (context) => {
  const { syncs, add, all } = await openNotes(context)
  const written = add('one')
  await untilSyncs(syncs, 1)
  syncs[0]!.reject(new Error('EIO: i/o error, fdatasync'))
  const isSyncFailure = (error: unknown) =>
    isAppError(error, 'unavailable') && /fdatasync/.test(error.message)
  await assert.rejects(written, isSyncFailure)
  await assert.rejects(all(), isSyncFailure)
  await assert.rejects(add('two'), isSyncFailure)
  assert.equal(syncs.length, 1)
})

test('the synced file is the log that SQLite keeps beside the open database', async (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'warren-wal-'))
  context.after(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'notes.db')
  const log = logOf(file)
  await assert.rejects(log.sync(), { code: 'ENOENT' })
  const db = new Kysely<Notes>({ dialect: sqliteDialect(file) })
  await sql`create table notes (text text)`.execute(db)
  await log.sync()
  log.close()
  await db.destroy()
})
