/** The layer store when its disk fails: what cannot be read is neither used nor removed. */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { ManualClock } from '../lib/clock.ts'
import { silentLog } from '../lib/log.ts'
import { anybody } from './layer-readers.ts'
import { LayerStore, type LayerStoreOptions } from './layer-store.ts'

const diffID = `sha256:${'ab'.repeat(32)}`
const signal = new AbortController().signal

function storeOptions(t: TestContext, options: Partial<LayerStoreOptions> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-layers-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const warnings: string[] = []
  const log = { ...silentLog, warn: (_: object, message: string) => warnings.push(message) }
  const clock = new ManualClock(Date.now())
  const layer = join(folder, 'layers', diffID.slice('sha256:'.length))
  const rest = { folder, ownerShift: 0, keepUnusedMs: 0, clock, log, sync: async () => {}, ...options }
  return { options: rest, warnings, clock, layer, record: join(layer, 'layer.json') }
}

const unpack = async (root: string) => {
  writeFileSync(join(root, 'file'), 'content')
  return { entries: 1, bytes: 4096, devicesLeftOut: 0, opaqueRoot: false }
}

for (const [what, damage] of [
  // Reading a folder fails with EISDIR, which says nothing about the layer, just like EIO or EMFILE.
  ['cannot be read', (record: string) => mkdirSync(record)],
  ['is damaged', (record: string) => writeFileSync(record, '{"bytes":')],
] as const) {
  test(`a layer whose record ${what} stays, is not used, and works again once it is repaired`, async (t) => {
    const { options, warnings, clock, layer, record } = storeOptions(t)
    await (await LayerStore.open(options)).fetch(diffID, anybody, signal, unpack)
    rmSync(record)
    damage(record)
    const store = await LayerStore.open(options)
    assert.deepEqual(warnings, ['a layer cannot be read and is left as it is'])
    assert.equal(existsSync(join(layer, 'root/file')), true)
    assert.throws(() => store.has(diffID), /cannot be read and is left as it is/)
    await assert.rejects(store.fetch(diffID, anybody, signal, unpack), /cannot be read/)
    clock.advance(3_600_000)
    assert.deepEqual(await store.prune({ layers: [], folders: [] }, false), { count: 0, bytes: 0 })
    assert.equal(existsSync(join(layer, 'root/file')), true)
    rmSync(record, { recursive: true })
    writeFileSync(record, JSON.stringify({ bytes: 4096, opaqueRoot: false, ownerShift: 0 }))
    assert.equal(store.has(diffID), true)
  })
}

test('a layer that could not be written to the disk is written by the next try', async (t) => {
  let fails = true
  let tries = 0
  const sync = async () => {
    tries += 1
    if (fails) throw new Error('the disk does not answer')
  }
  const { options, record } = storeOptions(t, { sync })
  const store = await LayerStore.open(options)
  await store.fetch(diffID, anybody, signal, unpack)
  await assert.rejects(store.sync(), /does not answer/)
  fails = false
  await store.sync()
  await store.sync()
  assert.equal(tries, 2)
  assert.equal(JSON.parse(readFileSync(record, 'utf8')).unsyncedSince, undefined)
})

test('a layer that fails to unpack leaves nothing on the disk', async (t) => {
  const { options } = storeOptions(t)
  const store = await LayerStore.open(options)
  const failing = async (root: string) => {
    await unpack(root)
    throw new Error('no space left')
  }
  await assert.rejects(store.fetch(diffID, anybody, signal, failing), /no space left/)
  assert.deepEqual(readdirSync(join(options.folder, 'layers')), [])
})
