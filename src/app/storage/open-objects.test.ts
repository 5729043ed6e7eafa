import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chownSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { inspect } from 'node:util'
import { baseKey, layerKey } from '../../core/object-storage/keys.ts'
import { createImages } from '../../images/images.ts'
import { silentLog } from '../../lib/log.ts'
import { MemoryObjectStore } from '../../objects/memory-object-store.ts'
import { ObjectPacks } from '../../objects/packs.ts'
import { S3ObjectStore } from '../../objects/s3-object-store.ts'
import { makeBaseRoot } from '../setup/base-root.ts'
import { createProgress } from '../setup/progress.ts'
import { baseFetcher, baseLayer, requireAnswer } from './open-objects.ts'

const shift = 100_000
const quiet = createProgress({ write: () => {} })

/** A base that one machine has made and put into the object store, and the folder of a machine that has none. */
async function world(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-shared-base-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const objects = new MemoryObjectStore()
  const opened = { objects, packs: new ObjectPacks(objects), prepare() {}, close: () => objects.close() }
  const source = join(folder, 'source')
  for (const name of ['etc', 'usr/bin', 'bin']) mkdirSync(join(source, name), { recursive: true })
  writeFileSync(join(source, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\n')
  writeFileSync(join(source, 'etc/group'), 'root:x:0:\n')
  const make = (name: string, fetch?: ReturnType<typeof baseFetcher>) =>
    makeBaseRoot(join(folder, name), `folder:${source}`, join(folder, 'cache'), quiet, fetch)
  const root = (await make('one')).folder
  writeFileSync(join(root, 'etc/made-by'), 'the first machine')
  chownSync(join(root, 'etc/made-by'), shift + 5, shift + 5)
  const open = (name: string) =>
    createImages({ folder: join(folder, name), ownerShift: shift, packs: opened.packs })
  const images = await open('images-one')
  t.after(() => images.close())
  const layer = await images.adopt('base', root)
  await images.remoteLayers!.store([layer], new AbortController().signal)
  await objects.putIfAbsent(baseKey(root.slice(root.lastIndexOf('/') + 1)), Buffer.from(layer))
  return { objects, opened, make, open, root, layer }
}

test('a machine without a base root fetches that of the others, byte for byte', async (t) => {
  const { opened, make, open, layer } = await world(t)
  const { folder } = await make(
    'other',
    baseFetcher(async () => opened),
  )
  assert.equal(readFileSync(join(folder, 'etc/made-by'), 'utf8'), 'the first machine')
  const images = await open('images-other')
  t.after(() => images.close())
  assert.equal(await images.adopt('base', folder), layer)
})

test('a base root fetched at the first start is not fetched again for the first sandbox', async (t) => {
  const { objects, opened, make, open, layer } = await world(t)
  const { folder } = await make(
    'other',
    baseFetcher(async () => opened),
  )
  objects.objects.delete(layerKey(layer))
  const images = await open('images-other')
  t.after(() => images.close())
  assert.equal(await baseLayer(images, folder, opened, silentLog), layer)
  assert.deepEqual(images.missing([layer]), [])
})

test('a machine that has made another base root uses that of the others, or its own without the object store', async (t) => {
  const { objects, opened, make, open, layer } = await world(t)
  const { folder } = await make('other')
  const images = await open('images-other')
  t.after(() => images.close())
  assert.equal(await baseLayer(images, folder, opened, silentLog), layer)
  assert.deepEqual(images.missing([layer]), [], 'no create waits for it')
  objects.isGone = true
  assert.notEqual(await baseLayer(images, folder, opened, silentLog), layer)
})

test('a base root that cannot be fetched whole is built, and contains nothing of the fetch', async (t) => {
  const { objects, opened, make, layer } = await world(t)
  const { bytes } = objects.objects.get(layerKey(layer))!
  bytes[20]! ^= 1
  const { folder } = await make(
    'other',
    baseFetcher(async () => opened),
  )
  assert.equal(existsSync(join(folder, 'etc/made-by')), false)
  assert.ok(existsSync(join(folder, 'etc/passwd')))
})

/** A server of S3 that accepts connections, and says nothing. */
async function silentStore(t: TestContext) {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => void sockets.add(socket)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const objects = new S3ObjectStore({
    bucket: 'warren',
    prefix: '',
    region: null,
    endpoint: `http://127.0.0.1:${port}`,
    credentials: { accessKeyId: 'key', secretAccessKey: 'secret' },
  })
  t.after(async () => {
    await objects.close()
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { objects }
}

test('a start does not wait for an object store that is silent, and says so', async (t) => {
  const { make, open, layer } = await world(t)
  const silent = await silentStore(t)
  const { folder } = await make('other')
  const images = await open('images-other')
  t.after(() => images.close())
  const logged: unknown[] = []
  const log = { ...silentLog, warn: (fields: object) => void logged.push(fields) }
  const began = performance.now()
  assert.notEqual(await baseLayer(images, folder, silent, log, 200), layer)
  assert.ok(performance.now() - began < 5000, 'one try of the client alone takes 30 s')
  assert.match(inspect(logged), /has not answered within 0.2 s/)
  await assert.rejects(requireAnswer(silent, 200), /has not answered within 0.2 s/)
})
