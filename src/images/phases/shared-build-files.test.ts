import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { silentLog } from '../../lib/log.ts'
import { FakePacks } from '../fake-packs.ts'
import { LocalBuildFiles } from './build-files.ts'
import { SharedBuildFiles } from './shared-build-files.ts'

const hash = 'ab'.repeat(32)
/** An empty tar archive. */
const archive = Buffer.alloc(1024)

async function* bytes() {
  yield archive
}

function world(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-shared-files-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const packs = new FakePacks()
  const node = (name: string) =>
    new SharedBuildFiles(new LocalBuildFiles(join(folder, name)), packs, silentLog)
  return { packs, one: node('one'), other: node('other') }
}

test('files that were uploaded to one node are found and read on another', async (t) => {
  const { one, other } = world(t)
  assert.equal(await other.has('team', hash), false)
  await one.write('team', hash, bytes(), 1e6)
  assert.equal(await other.has('another-team', hash), false)
  assert.equal(await other.has('team', hash), true)
  const parts: Buffer[] = []
  for await (const part of (await other.open('team', hash))!) parts.push(part)
  assert.ok(Buffer.concat(parts).equals(archive))
  assert.equal((await other.list()).length, 1)
})

test('files that a node has fetched stay on its disk if the object store loses them', async (t) => {
  const { packs, one, other } = world(t)
  await one.write('team', hash, bytes(), 1e6)
  assert.equal(await other.has('team', hash), true)
  packs.packs.clear()
  assert.ok(await other.open('team', hash))
})

test('without the object store each node has its own files, and asks for the others again', async (t) => {
  const { packs, one, other } = world(t)
  packs.store = async () => {
    throw new Error('gone')
  }
  await one.write('team', hash, bytes(), 1e6)
  assert.equal(await one.has('team', hash), true)
  assert.equal(await other.has('team', hash), false)
  packs.fetch = packs.store as never
  assert.equal(await other.has('team', hash), false)
  assert.equal(await other.open('team', hash), undefined)
})
