import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import { failsWith } from '../../../test/support/domain.ts'
import { tarOf } from '../archive-fixture.ts'
import { LocalBuildFiles } from './build-files.ts'

const hash = 'ab'.repeat(32)
const packed = (content: string) => tarOf([{ name: 'file', content }])
/** An archive in two pieces. */
const body = (content: string) => {
  const archive = packed(content)
  return Readable.from([archive.subarray(0, 700), archive.subarray(700)])
}
const textOf = (content: string) => packed(content).toString()

function openFiles() {
  const folder = mkdtempSync(join(tmpdir(), 'warren-files-'))
  const files = new LocalBuildFiles(folder)
  return {
    folder,
    files,
    read: async (teamID: string) => (await (await files.open(teamID, hash))?.toArray())?.join(''),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  }
}

describe('uploaded files', () => {
  it('are visible to their team only, unchanged', async () => {
    using stored = openFiles()
    const { files } = stored
    assert.equal(await files.has('a', hash), false)
    assert.equal(await files.open('a', hash), undefined)
    await files.write('a', hash, body('one two'), 4096)
    assert.equal(await files.has('a', hash), true)
    assert.equal(await stored.read('a'), textOf('one two'))
    assert.equal(await files.has('b', hash), false)
    assert.equal(await stored.read('b'), undefined)
    assert.equal(statSync(join(stored.folder, 'a', hash)).mode & 0o777, 0o600)
  })

  it('are replaced as a whole, and readers of the old ones keep them', async () => {
    using stored = openFiles()
    await stored.files.write('a', hash, body('old'), 4096)
    const old = await stored.files.open('a', hash)
    await stored.files.write('a', hash, body('new'), 4096)
    assert.equal((await old!.toArray()).join(''), textOf('old'))
    assert.equal(await stored.read('a'), textOf('new'))
  })

  it('are rejected above the limit, and leave nothing behind', async () => {
    using stored = openFiles()
    const { files, folder } = stored
    await assert.rejects(files.write('a', hash, body('12345'), 1500), failsWith('payload_too_large'))
    assert.equal(await files.has('a', hash), false)
    assert.deepEqual(readdirSync(join(folder, 'a')), [])
  })

  it('do not exist if the client leaves half-way, and an earlier upload stays', async () => {
    using stored = openFiles()
    const { files, folder } = stored
    const broken = async function* () {
      yield packed('half').subarray(0, 700)
      throw new Error('the client went away')
    }
    await assert.rejects(files.write('a', hash, broken(), 4096), /went away/)
    assert.equal(await files.has('a', hash), false)
    await files.write('a', hash, body('whole'), 4096)
    await assert.rejects(files.write('a', hash, broken(), 4096), /went away/)
    assert.equal(await stored.read('a'), textOf('whole'))
    assert.deepEqual(readdirSync(join(folder, 'a')), [hash])
  })

  it('take no name that could lead elsewhere', async () => {
    using stored = openFiles()
    for (const bad of ['../x', 'AB'.repeat(32), 'ab', `${hash}/..`, '']) {
      await assert.rejects(stored.files.has('a', bad), failsWith('invalid_argument'))
      await assert.rejects(stored.files.write('a', bad, body('x'), 9), failsWith('invalid_argument'))
    }
    await assert.rejects(stored.files.open('../a', hash), failsWith('internal'))
  })

  it('are removed unless somebody asked for them since they were listed', async () => {
    using stored = openFiles()
    const { files, folder } = stored
    const [used, forgotten] = ['11'.repeat(32), '22'.repeat(32)]
    await files.write('a', used, body('kept'), 4096)
    await files.write('a', forgotten, body('forgotten'), 4096)
    const longAgo = new Date('2020-01-01')
    for (const name of readdirSync(join(folder, 'a'))) utimesSync(join(folder, 'a', name), longAgo, longAgo)
    const listed = (await files.list()).sort((one, other) => (one.hash < other.hash ? -1 : 1))
    assert.deepEqual(
      listed.map(({ teamID, hash, usedAt }) => [teamID, hash, usedAt]),
      [used, forgotten].map((name) => ['a', name, longAgo.getTime()]),
    )
    assert.ok(listed.every(({ bytes }) => bytes > 0))
    const askedAt = Date.now()
    assert.equal(await files.has('a', used), true)
    assert.deepEqual(
      listed.map((one) => files.remove(one)),
      [false, true],
    )
    assert.deepEqual(readdirSync(join(folder, 'a')), [used])
    assert.ok((await files.list())[0]!.usedAt >= askedAt)
    assert.equal(files.remove(listed[1]!), false)
  })

  it('are rejected with the reason if the disk has no space, and leave nothing behind', async () => {
    using stored = openFiles()
    const full = async function* () {
      yield packed('part').subarray(0, 700)
      throw Object.assign(new Error('write ENOSPC'), { code: 'ENOSPC' })
    }
    await assert.rejects(stored.files.write('a', hash, full(), 4096), failsWith('no_space'))
    assert.deepEqual(readdirSync(join(stored.folder, 'a')), [])
  })

  it('are removed at the start if a crash cut them off', async () => {
    using stored = openFiles()
    const { files, folder } = stored
    await files.write('a', hash, body('whole'), 4096)
    writeFileSync(join(folder, 'a', `${hash}.12.partial`), 'half')
    await files.sweep()
    assert.deepEqual(readdirSync(join(folder, 'a')), [hash])
  })

  it('do not count as missing if they cannot be looked up', async () => {
    using stored = openFiles()
    const { files, folder } = stored
    // A file in place of the team's folder: asking for what is below it fails with ENOTDIR.
    writeFileSync(join(folder, 'a'), '')
    await assert.rejects(files.has('a', hash), { code: 'ENOTDIR' })
    await assert.rejects(files.open('a', hash), { code: 'ENOTDIR' })
    await assert.rejects(files.list(), { code: 'ENOTDIR' })
  })

  it('can be looked up before their folder exists', async () => {
    const files = new LocalBuildFiles(join(tmpdir(), 'warren-files-that-are-not-there'))
    assert.equal(await files.has('a', hash), false)
    await files.sweep()
    assert.deepEqual(await files.list(), [])
  })
})
