/** Packs from a store that lies: cut, swapped, swollen, or made with checksums that match. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { fuzz, type Random } from '../../test/support/fuzz.ts'
import { isAppError } from '../lib/app-error.ts'
import { MemoryObjectStore } from './memory-object-store.ts'
import { type PackIndex, packEnd, readIndex, readTrailer } from './pack-format.ts'
import { ObjectPacks } from './packs.ts'
import { S3ObjectStore } from './s3-object-store.ts'

const key = 'snapshots/a'
const files = { disk: randomBytes(5_000_000), config: Buffer.from('{}') }

async function world(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-lies-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const store = new MemoryObjectStore()
  const packs = new ObjectPacks(store)
  const given = Object.entries(files).map(([name, bytes]) => {
    writeFileSync(join(folder, name), bytes)
    return { name, path: join(folder, name) }
  })
  await packs.store(key, given, { of: 'this one' })
  const whole = Buffer.from(store.objects.get(key)!.bytes)
  const target = join(folder, 'target')
  /** Names are joined without a look, as the most careless reader would. */
  const load = async () => {
    rmSync(target, { recursive: true, force: true })
    mkdirSync(target)
    return packs.fetch(key, () => ({ open: (name) => join(target, name) }))
  }
  const put = (bytes: Uint8Array) => store.objects.set(key, { ...store.objects.get(key)!, bytes })
  return { folder, target, whole, load, put }
}

test('bytes that were changed, cut or added are never taken for the pack', async (t) => {
  const { whole, load, put, target } = await world(t)
  await fuzz(31, async (random) => {
    const lie = bend(random, whole)
    put(lie)
    try {
      await load()
    } catch (error) {
      assert.ok(isAppError(error), String(error))
      return
    }
    for (const [name, bytes] of Object.entries(files))
      assert.ok(readFileSync(join(target, name)).equals(bytes), name)
  })
})

function bend(random: Random, whole: Buffer): Buffer {
  const at = random.below(whole.length)
  const bytes = Buffer.from(whole)
  switch (random.below(5)) {
    case 0:
      bytes[at]! ^= 1 << random.below(8)
      return bytes
    case 1:
      return bytes.subarray(0, at)
    case 2:
      return Buffer.concat([bytes, random.bytes(1 + random.below(100))])
    case 3:
      return Buffer.concat([random.bytes(1 + random.below(100)), bytes])
    default:
      return Buffer.concat([bytes.subarray(at), bytes.subarray(0, at)])
  }
}

const odd: unknown[] = [
  -1,
  0.5,
  2 ** 53,
  2 ** 60,
  Number.MAX_SAFE_INTEGER,
  null,
  '1',
  [],
  {},
  true,
  '../outside',
  '/etc/passwd',
  'a/../../b',
  '',
  '.',
  'x\0y',
  'a//b',
  'x'.repeat(300),
]

test('an index whose checksum matches cannot lead outside of the folder, of its files or of the pack', async (t) => {
  const { folder, whole, load, put, target } = await world(t)
  const trailer = readTrailer(whole, whole.length)
  const honest = await readIndex(whole.subarray(trailer.at, trailer.at + trailer.bytes), trailer)
  const before = readdirSync(folder).sort()
  let refused = 0
  await fuzz(32, async (random) => {
    const index = structuredClone(honest)
    for (let changes = 1 + random.below(3); changes > 0; changes--) change(random, index)
    const { bytes } = await packEnd(index, trailer.at)
    put(Buffer.concat([whole.subarray(0, trailer.at), bytes]))
    await load().catch((error) => {
      assert.ok(isAppError(error), `${JSON.stringify(index).slice(0, 300)}: ${error}`)
      refused++
    })
    assert.deepEqual(
      readdirSync(folder)
        .filter((name) => name !== 'target')
        .sort(),
      before,
    )
    for (const name of readdirSync(target)) {
      const { size, blocks } = statSync(join(target, name))
      assert.ok(size <= 2 ** 50 && blocks * 512 <= 8_000_000, `${name} ${size} ${blocks}`)
    }
  })
  assert.ok(refused > 0)
})

function change(random: Random, index: PackIndex): void {
  const entry = random.pick(index.files) as Record<string, unknown> | null
  const part =
    entry && Array.isArray(entry.parts) ? (random.pick(entry.parts) as Record<string, unknown>) : undefined
  const of = random.chance(0.5) && part ? part : entry
  if (!of) return
  const field = random.pick(Object.keys(of).length > 0 ? Object.keys(of) : ['x'])
  if (random.chance(0.2)) Object.assign(index, { files: [...index.files, random.pick(index.files)] })
  else
    of[field] =
      typeof of[field] === 'number' && random.chance(0.4)
        ? (of[field] as number) + random.below(3_000_000) - 1_500_000
        : random.pick(odd)
}

/** An S3 server that answers every request for an object as it likes. */
async function lyingS3(t: TestContext, answer: Parameters<typeof createServer>[1] & object) {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close().closeAllConnections())
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const credentials = { accessKeyId: 'a', secretAccessKey: 'b' }
  return new S3ObjectStore({ endpoint, credentials, bucket: 'bucket', prefix: '', region: null })
}

test('a server that sends without end is left after the bytes that were asked for', async (t) => {
  let sent = 0
  const store = await lyingS3(t, (_, response) => {
    response.writeHead(206, { 'Content-Range': 'bytes 0-9/1000' })
    const more = () => {
      while (!response.destroyed && sent < 2 ** 30) {
        sent += 65_536
        if (!response.write(Buffer.alloc(65_536))) return void response.once('drain', more)
      }
    }
    more()
  })
  await assert.rejects(store.read(key, 0, 10), /object store/)
  await assert.rejects(store.readEnd(key, 10), /object store/)
  assert.ok(sent < 100_000_000, `${sent}`)
})
