import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { MemoryObjectStore } from './memory-object-store.ts'
import { ObjectPacks } from './packs.ts'

const mebibyte = 1024 * 1024

function world(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-packs-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const store = new MemoryObjectStore()
  const packs = new ObjectPacks(store)
  const at = (name: string) => join(folder, name)
  const load = (key: string, signal?: AbortSignal) =>
    packs.fetch(key, () => ({ open: (name) => at(`loaded-${name}`) }), signal)
  return { store, packs, at, load }
}

/** A gibibyte with data at its beginning, in the middle across the border of two parts, and at its end. */
async function writeSparse(path: string): Promise<void> {
  writeFileSync(path, '')
  truncateSync(path, 1024 * mebibyte)
  await using file = await open(path, 'r+')
  for (const offset of [0, 510 * mebibyte - 1000, 1024 * mebibyte - 5000]) {
    await file.write(randomBytes(5000), 0, 5000, offset)
  }
}

test('files come back byte by byte, and holes as holes', async (t) => {
  const { store, packs, at, load } = world(t)
  await writeSparse(at('disk'))
  writeFileSync(at('small'), 'text')
  writeFileSync(at('empty'), '')
  const files = ['disk', 'small', 'empty'].map((name) => ({ name, path: at(name) }))
  assert.equal((await packs.store('snapshots/a', files, { record: { version: 1 } })).isNew, true)
  assert.ok(store.objects.get('snapshots/a')!.bytes.length < 100_000)
  assert.deepEqual(await load('snapshots/a'), { record: { version: 1 } })
  const [before, after] = [statSync(at('disk')), statSync(at('loaded-disk'))]
  assert.equal(after.size, before.size)
  assert.ok(after.blocks * 512 < mebibyte, 'it takes the space of its data alone')
  for (const start of [0, 510 * mebibyte - 2000, 1023 * mebibyte]) {
    assert.deepEqual(await bytesOf(at('loaded-disk'), start), await bytesOf(at('disk'), start))
  }
  assert.equal(readFileSync(at('loaded-small'), 'utf8'), 'text')
  assert.equal(statSync(at('loaded-empty')).size, 0)
})

async function bytesOf(path: string, start: number): Promise<Buffer> {
  await using file = await open(path)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(mebibyte), 0, mebibyte, start)
  return buffer.subarray(0, bytesRead)
}

test('a stream of any length comes back in order', async (t) => {
  const { packs } = world(t)
  const bytes = randomBytes(9 * mebibyte + 17)
  const content = async function* () {
    for (let at = 0; at < bytes.length; at += 700_001) yield bytes.subarray(at, at + 700_001)
  }
  await packs.store('layers/a', [{ name: 'layer.tar', content: content() }], {})
  const got: Uint8Array[] = []
  const read = async (parts: AsyncIterable<Uint8Array>) => {
    for await (const part of parts) got.push(part)
  }
  await packs.fetch('layers/a', () => ({ open: () => read }))
  assert.ok(Buffer.concat(got).equals(bytes))
})

test('a reader of a pack gets its note first, and skips the files that it does not want', async (t) => {
  const { packs, at } = world(t)
  const files = ['one', 'other'].map((name) => ({ name, path: at(name) }))
  for (const { name, path } of files) writeFileSync(path, name)
  await packs.store('k', files, { wanted: 'other' })
  await packs.fetch('k', ({ wanted }) => ({
    open: (name) => (name === wanted ? at('loaded') : undefined),
  }))
  assert.equal(readFileSync(at('loaded'), 'utf8'), 'other')
})

test('one request reads the index and all files at the end, and only what lies before needs more', async (t) => {
  const { store, packs, at } = world(t)
  writeFileSync(at('memory'), randomBytes(3 * mebibyte))
  writeFileSync(at('disk'), randomBytes(500_000))
  writeFileSync(at('state'), 'state')
  const names = ['memory', 'disk', 'state']
  await packs.store(
    'snapshots/a',
    names.map((name) => ({ name, path: at(name) })),
    {},
  )
  let requests = 0
  store.onStep = () => void requests++
  const fetch = (wanted: string[], into: string) =>
    packs.fetch('snapshots/a', () => ({
      open: (name) => (wanted.includes(name) ? at(`${into}-${name}`) : undefined),
    }))
  await fetch(['disk', 'state'], 'near')
  assert.equal(requests, 1)
  await fetch(names, 'all')
  assert.ok(requests > 2)
  for (const name of ['near-disk', 'near-state', 'all-memory', 'all-disk', 'all-state'])
    assert.deepEqual(readFileSync(at(name)), readFileSync(at(name.replace(/.*-/, ''))))
})

test('a pack that exists is not written again, and a missing one is reported', async (t) => {
  const { packs, at, load } = world(t)
  writeFileSync(at('file'), 'one')
  const { isNew, checksum } = await packs.store('k', [{ name: 'file', path: at('file') }], {})
  assert.equal(isNew, true)
  const again = await packs.store('k', [{ name: 'file', path: at('is-not-read') }], {})
  assert.deepEqual(again, { isNew: false, checksum })
  assert.equal((await packs.open('k'))?.checksum, checksum)
  assert.equal(await load('none'), undefined)
})

test('a single wrong bit anywhere is found', async (t) => {
  const { store, packs, at, load } = world(t)
  writeFileSync(at('file'), randomBytes(3 * mebibyte))
  await packs.store('k', [{ name: 'file', path: at('file') }], { some: 'note' })
  const { bytes } = store.objects.get('k')!
  for (const where of [5, bytes.length >> 1, bytes.length - 200, bytes.length - 50, bytes.length - 3]) {
    bytes[where]! ^= 1
    await assert.rejects(load('k'), { code: 'internal' }, `byte ${where} of ${bytes.length}`)
    bytes[where]! ^= 1
    rmSync(at('loaded-file'), { force: true })
  }
  assert.deepEqual(await load('k'), { some: 'note' })
})

test('a store that fails half-way fails the load, and nothing is written after that', async (t) => {
  const { store, packs, at, load } = world(t)
  writeFileSync(at('file'), randomBytes(40 * mebibyte))
  await packs.store('k', [{ name: 'file', path: at('file') }], {})
  let reads = 0
  store.onStep = (step) => {
    if (step === 'read' && ++reads > 4) throw new Error('cut off')
  }
  await assert.rejects(load('k'), /cut off/)
})
