/** Over a real S3 server: two prefixes of one bucket, and the database of one cluster. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { startObjectStore, type TestObjectStore } from '../../../test/support/object-store.ts'
import { systemClock } from '../../lib/clock.ts'
import { silentLog } from '../../lib/log.ts'
import { openStores } from '../../store/open-stores.ts'
import type { Stores } from '../../store/stores.ts'
import { vault } from '../../store/suite/rows.ts'
import { dataPaths } from '../data/data-folder.ts'
import { StartRefusal } from '../process/start-refusal.ts'
import { guardObjects, whyOtherStore } from './guard-objects.ts'
import { openObjects } from './open-objects.ts'

let folder: string
let server: TestObjectStore
let stores: Stores
const credentials = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'] as const
const earlier = credentials.map((name) => process.env[name])

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'warren-guard-objects-'))
  server = await startObjectStore()
  for (const name of credentials) process.env[name] = server.env[name]
  stores = await openStores({ url: undefined, dataFolder: folder, vault, nodeID: 'one', adopts: false })
})
after(async () => {
  await stores?.close()
  await server?.close()
  credentials.forEach((name, at) => {
    if (earlier[at] === undefined) delete process.env[name]
    else process.env[name] = earlier[at]
  })
  rmSync(folder, { recursive: true, force: true })
})

const paths = () => dataPaths(folder)
const settingsOf = (prefix: string) =>
  ({
    objectStore: `s3://${server.bucket}/${prefix}`,
    objectStoreEndpoint: server.endpoint,
    objectStoreRegion: 'us-east-1',
  }) as Parameters<typeof openObjects>[0]

async function open(prefix: string) {
  const config = settingsOf(prefix)
  const opened = (await openObjects(config))!
  return guardObjects(opened, { config, stores, paths: paths(), clock: systemClock, log: silentLog })
}

test('a machine whose settings name another prefix does not start, says what to do, and writes nothing there', async () => {
  const right = await open('right')
  await right.objects.putIfAbsent('layers/one', Buffer.from('bytes'))
  await assert.rejects(open('wrong'), (error) => {
    assert.ok(error instanceof StartRefusal)
    assert.match(error.message, /wrong is not s3:.*right, which this cluster uses\. Set WARREN_OBJECT_STORE/)
    return true
  })
  const wrong = (await openObjects(settingsOf('wrong')))!
  for await (const { key } of wrong.objects.list('')) assert.fail(`${key} was written`)
  assert.equal(await whyOtherStore(wrong, paths()), 'has no mark of a cluster')
  assert.equal(await whyOtherStore(right, paths()), undefined)
  await wrong.close()
  await (await open('right')).close()
  await right.close()
})

test('while the object store is away the start goes on, and its first use looks where it is', async () => {
  await server.stop()
  const [right, wrong] = [await open('right'), await open('wrong')]
  await server.start()
  await assert.rejects(
    wrong.objects.putIfAbsent('layers/two', Buffer.from('bytes')),
    /which this cluster uses/,
  )
  await assert.rejects(wrong.packs.has('layers/two'), /which this cluster uses/)
  assert.equal(await right.objects.putIfAbsent('layers/two', Buffer.from('bytes')), true)
  await Promise.all([right.close(), wrong.close()])
})
