/** The tests that every object store must pass. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { suite, test } from 'node:test'
import type { ObjectEntry, ObjectStore } from '../core/ports/object-store.ts'

export function objectStoreSuite(name: string, open: () => Promise<ObjectStore>): void {
  const storeTest = (behaviour: string, body: (store: ObjectStore) => Promise<void>) =>
    test(behaviour, async () => {
      const store = await open()
      await body(store).finally(() => store.close())
    })
  suite(`the object store: ${name}`, () => {
    storeTest('an object is read back unchanged, in any range', readsRanges)
    storeTest('of two writers of the same name, the second changes nothing', keepsTheFirst)
    storeTest('a large stream in parts is put only if the name is free', putsStreams)
    storeTest('an upload that fails or is aborted leaves no object', leavesNothing)
    storeTest('a missing object is reported as absent, and its removal is no error', knowsAbsence)
    storeTest('objects are listed by prefix', listsByPrefix)
  })
}

async function readsRanges(store: ObjectStore): Promise<void> {
  const bytes = randomBytes(100_000)
  assert.equal(await store.putIfAbsent('a/one', bytes), true)
  assert.equal(await store.size('a/one'), bytes.length)
  assert.deepEqual(Buffer.from(await store.read('a/one', 0, 100_000)), bytes)
  assert.deepEqual(Buffer.from(await store.read('a/one', 99_990, 10)), bytes.subarray(99_990))
  for (const length of [1, 10, 100_000, 100_001]) {
    const end = await store.readEnd('a/one', length)
    assert.deepEqual([end?.size, Buffer.from(end!.bytes)], [bytes.length, bytes.subarray(-length)])
  }
  await store.putIfAbsent('a/empty', Buffer.alloc(0))
  const empty = await store.readEnd('a/empty', 10)
  assert.deepEqual([empty?.size, empty?.bytes.length], [0, 0])
}

async function keepsTheFirst(store: ObjectStore): Promise<void> {
  assert.equal(await store.putIfAbsent('b/one', Buffer.from('first')), true)
  assert.equal(await store.putIfAbsent('b/one', Buffer.from('second')), false)
  assert.equal(Buffer.from(await store.read('b/one', 0, 5)).toString(), 'first')
}

const piece = randomBytes(1024 * 1024)
async function* pieces(count: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < count; at++) yield piece
}

async function putsStreams(store: ObjectStore): Promise<void> {
  assert.equal(await store.putIfAbsent('c/large', pieces(20)), true)
  assert.equal(await store.size('c/large'), 20 * piece.length)
  assert.equal(await store.putIfAbsent('c/large', pieces(21)), false)
  assert.equal(await store.size('c/large'), 20 * piece.length)
  assert.deepEqual(Buffer.from(await store.read('c/large', 11 * piece.length, piece.length)), piece)
}

async function leavesNothing(store: ObjectStore): Promise<void> {
  const failing = async function* () {
    yield* pieces(10)
    throw new Error('the file became shorter')
  }
  await assert.rejects(store.putIfAbsent('d/failed', failing()))
  const called = new AbortController()
  const endless = async function* () {
    for (let count = 0; ; count++) {
      if (count === 10) called.abort(new Error('called off'))
      yield piece
    }
  }
  await assert.rejects(store.putIfAbsent('d/aborted', endless(), called.signal), /called off/)
  assert.equal(await store.size('d/failed'), undefined)
  assert.equal(await store.size('d/aborted'), undefined)
  await store.removeUnfinished(Date.now() + 60_000)
}

async function knowsAbsence(store: ObjectStore): Promise<void> {
  assert.equal(await store.size('e/none'), undefined)
  assert.equal(await store.readEnd('e/none', 10), undefined)
  await assert.rejects(store.read('e/none', 0, 1), { code: 'not_found' })
  await store.remove('e/none')
  await store.putIfAbsent('e/some', Buffer.from('x'))
  await store.remove('e/some')
  assert.equal(await store.size('e/some'), undefined)
}

async function listsByPrefix(store: ObjectStore): Promise<void> {
  const before = Date.now() - 60_000
  for (const key of ['f/one', 'f/two/three', 'g/four']) await store.putIfAbsent(key, Buffer.from(key))
  const found = await listed(store, 'f/')
  assert.deepEqual(
    found.map(({ key, bytes }) => [key, bytes]),
    [
      ['f/one', 5],
      ['f/two/three', 11],
    ],
  )
  assert.ok(found.every(({ modifiedAt }) => modifiedAt > before && modifiedAt < Date.now() + 60_000))
  assert.deepEqual(await listed(store, 'nothing/'), [])
}

export async function listed(store: ObjectStore, prefix: string): Promise<ObjectEntry[]> {
  const found: ObjectEntry[] = []
  for await (const entry of store.list(prefix)) found.push(entry)
  return found
}
