import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { after, before, type TestContext } from 'node:test'
import { eventually } from '../../test/support/eventually.ts'
import { startObjectStore, type TestObjectStore } from '../../test/support/object-store.ts'
import { openStoreGate } from '../../test/support/store-gate.ts'
import { isAppError } from '../lib/app-error.ts'
import { newUUID } from '../lib/ids.ts'
import { PackThread } from './pack-thread.ts'
import { ObjectPacks } from './packs.ts'
import { S3ObjectStore, type S3Options } from './s3-object-store.ts'

let server: TestObjectStore

before(async () => {
  server = await startObjectStore()
})
after(() => server.close())

/** Of three parts. */
const content = randomBytes(5_000_000)

function world(t: TestContext, changes: Partial<S3Options> = {}) {
  const { endpoint, bucket, credentials } = server
  const options = { endpoint, bucket, credentials, prefix: `${newUUID()}/`, region: null, ...changes }
  const folder = mkdtempSync(join(tmpdir(), 'warren-pack-thread-'))
  const store = new S3ObjectStore(options)
  const thread = new PackThread(options)
  t.after(async () => {
    await thread.close()
    await store.close()
    rmSync(folder, { recursive: true })
  })
  const at = (name: string) => join(folder, name)
  writeFileSync(at('memory'), content)
  const files = [{ name: 'memory', path: at('memory') }]
  return { packs: new ObjectPacks(store, thread), thread, store, files, at, prefix: options.prefix }
}

test('files of a pack are written, whole and by parts in any order', async (t) => {
  const { packs, files, at } = world(t)
  await packs.store('a', files, {})
  await packs.fetch('a', () => ({ open: () => at('whole') }))
  assert.deepEqual(readFileSync(at('whole')), content)
  const { parts, write } = (await packs.open('a'))!.partsOf('memory')!
  await using file = await open(at('by-parts'), 'w')
  const { signal } = new AbortController()
  await Promise.all([...parts.keys()].reverse().map((index) => write(index, file.fd, signal)))
  assert.deepEqual(readFileSync(at('by-parts')), content)
})

test('a wrong bit and a missing object are told as they are without a thread', async (t) => {
  const { packs, files, at, prefix } = world(t)
  await packs.store('a', files, {})
  const opened = (await packs.open('a'))!
  const object = join(server.folder, prefix, 'a')
  const bytes = readFileSync(object)
  bytes[1_000_000]! ^= 1
  writeFileSync(object, bytes)
  const fetch = (name: string) => opened.fetch({ open: () => at(name) })
  await assert.rejects(fetch('damaged'), (error: Error) => {
    assert.ok(isAppError(error, 'internal'))
    return /does not match its checksum/.test((error.cause as Error).message)
  })
  await packs.remove('a')
  await assert.rejects(fetch('removed'), (error) => isAppError(error, 'not_found'))
})

test('an abort ends a request, and only then may the file be closed', async (t) => {
  const gate = await openStoreGate(server.endpoint)
  t.after(() => gate.close())
  const { packs, files, at } = world(t, { endpoint: gate.endpoint })
  await packs.store('a', files, {})
  const opened = (await packs.open('a'))!
  gate.block()
  const abort = new AbortController()
  const file = await open(at('aborted'), 'w')
  const written = opened.partsOf('memory')!.write(0, file.fd, abort.signal)
  abort.abort(new Error('enough'))
  await assert.rejects(written, /enough/)
  await file.close()
  gate.release()
  assert.equal(readFileSync(at('aborted')).length, 0)
})

test('requests of a thread that ends fail, and later ones get a new thread', async (t) => {
  const gate = await openStoreGate(server.endpoint)
  t.after(() => gate.close())
  const { packs, thread, files, at } = world(t, { endpoint: gate.endpoint })
  await packs.store('a', files, {})
  const opened = (await packs.open('a'))!
  gate.block()
  const fetched = opened.fetch({ open: () => at('first') })
  const rejected = assert.rejects(
    fetched,
    (error) => isAppError(error, 'unavailable') && /thread .* has ended/.test(error.message),
  )
  // Until then the thread may not have begun, and closing it would end nothing.
  await eventually(() => assert.ok(gate.isBlocking()))
  await thread.close()
  await rejected
  gate.release()
  await opened.fetch({ open: () => at('second') })
  assert.deepEqual(readFileSync(at('second')), content)
  assert.deepEqual(readdirSync(at('')).sort(), ['first', 'memory', 'second'])
})
