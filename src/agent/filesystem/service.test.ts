import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { Accounts } from '../accounts.ts'
import { type Json, useAgent } from '../agent-suite.ts'
import { describeEntry } from './entry.ts'

const agent = useAgent()
const at = (name: string) => join(agent.folder, name)
const call = (method: string, message: Json, headers = {}) =>
  agent.unary(`filesystem.Filesystem/${method}`, message, headers)
const as = (user: string) => ({ authorization: `Basic ${Buffer.from(`${user}:`).toString('base64')}` })
const entryOf = async (path: string, headers = {}) =>
  (await call('Stat', { path }, headers)).json.entry as Json

suite('Stat', () => {
  test('tells everything about a file', async () => {
    writeFileSync(at('file.txt'), 'hello', { mode: 0o640 })
    utimesSync(at('file.txt'), 1_700_000_000, 1_700_000_000.5)
    assert.deepEqual(await entryOf(at('file.txt')), {
      name: 'file.txt',
      type: 'FILE_TYPE_FILE',
      path: at('file.txt'),
      size: '5',
      mode: 0o640,
      permissions: '-rw-r-----',
      owner: 'root',
      group: 'root',
      modifiedTime: '2023-11-14T22:13:20.500Z',
    })
  })

  test('a folder is reported as one, with its sticky bit', async () => {
    const entry = await entryOf('/tmp')
    assert.equal(entry.type, 'FILE_TYPE_DIRECTORY')
    assert.equal(entry.permissions, 'dtrwxrwxrwx')
    assert.equal(entry.mode, 0o777)
  })

  test('a link shows type, mode and size of its target, permissions of itself', async () => {
    writeFileSync(at('target'), '12345678', { mode: 0o600 })
    symlinkSync('target', at('link'))
    const entry = await entryOf(at('link'))
    assert.equal(entry.type, 'FILE_TYPE_FILE')
    assert.equal(entry.size, '8')
    assert.equal(entry.mode, 0o600)
    assert.equal(entry.permissions, 'Lrwxrwxrwx')
    assert.equal(entry.symlinkTarget, at('target'))
    assert.equal(entry.isSymlink, true)
  })

  test('a path that changes between link and file is reported as one of the two', async () => {
    const path = at('changing')
    const swap = `
      const { renameSync, symlinkSync, writeFileSync } = require('node:fs')
      const { parentPort, workerData: path } = require('node:worker_threads')
      const put = (make) => { make(path + '-next'); renameSync(path + '-next', path) }
      for (let times = 0; ; times++) {
        put((next) => symlinkSync('nowhere', next))
        put((next) => writeFileSync(next, ''))
        if (times === 0) parentPort.postMessage('begun')
      }`
    const worker = new Worker(swap, { eval: true, workerData: path })
    await once(worker, 'message')
    try {
      const accounts = new Accounts()
      // About a hundred of these calls happen between the two changes.
      for (let look = 0; look < 20_000; look++) describeEntry(path, { accounts })
    } finally {
      await worker.terminate()
    }
  })

  test('a broken link and one in a circle are links', async () => {
    symlinkSync('nowhere', at('broken'))
    symlinkSync('round', at('round'))
    for (const name of ['broken', 'round']) {
      const entry = await entryOf(at(name))
      assert.equal(entry.type, 'FILE_TYPE_SYMLINK', name)
      assert.equal(entry.isSymlink, true)
    }
  })

  test('an old strict client does not see newer fields', async () => {
    symlinkSync('target', at('link-for-old'))
    const entry = await entryOf(at('link-for-old'), { 'user-agent': 'connect-python/0.4' })
    assert.equal('isSymlink' in entry, false)
  })

  test('paths start at the home, with or without a tilde; an empty one is the default folder', async () => {
    assert.equal((await entryOf('~')).path, '/root')
    assert.equal((await entryOf('.')).path, '/root')
    assert.equal((await entryOf('')).path, agent.folder)
    assert.equal((await entryOf('../tmp')).path, '/tmp')
  })

  test('a missing path is not_found, and an impossible path is rejected', async () => {
    assert.equal((await call('Stat', { path: at('nothing') })).status, 404)
    assert.equal((await call('Stat', { path: at('file.txt/below') })).status, 400)
    assert.equal((await call('Stat', { path: '/x\0y' })).status, 400)
    assert.equal((await call('Stat', { path: `/${'x'.repeat(5000)}` })).status, 400)
    assert.equal((await call('Stat', { path: '/' }, as('nouser'))).status, 401)
  })
})

suite('ListDir', () => {
  const list = async (path: string, depth?: number) => {
    const { json } = await call('ListDir', { path, ...(depth !== undefined && { depth }) })
    return ((json.entries as Json[] | undefined) ?? []).map((entry) => entry.path)
  }

  test('goes depth first in lexical order, as deep as asked', async () => {
    const root = at('tree')
    mkdirSync(join(root, 'subdir1/deep'), { recursive: true })
    mkdirSync(join(root, 'subdir2'))
    mkdirSync(join(root, 'subdir1-x'))
    for (const name of ['file1', 'subdir1/b', 'subdir1/a', 'subdir1/deep/z', 'subdir2/c'])
      writeFileSync(join(root, name), '')
    const below = (names: string[]) => names.map((name) => join(root, name))
    assert.deepEqual(await list(root), below(['file1', 'subdir1', 'subdir1-x', 'subdir2']))
    assert.deepEqual(await list(root, 0), await list(root, 1))
    assert.deepEqual(
      await list(root, 2),
      below([
        'file1',
        'subdir1',
        'subdir1/a',
        'subdir1/b',
        'subdir1/deep',
        'subdir1-x',
        'subdir2',
        'subdir2/c',
      ]),
    )
    assert.ok((await list(root, 3)).includes(join(root, 'subdir1/deep/z')))
  })

  test('does not follow links below the folder, but lists a folder through a link that is asked for', async () => {
    const root = at('links')
    mkdirSync(join(root, 'real'), { recursive: true })
    writeFileSync(join(root, 'real/inside'), '')
    symlinkSync('real', join(root, 'alias'))
    symlinkSync('..', join(root, 'real/up'))
    assert.deepEqual(await list(join(root, 'alias')), [join(root, 'alias/inside'), join(root, 'alias/up')])
    assert.deepEqual(
      await list(root, 100),
      ['alias', 'real', 'real/inside', 'real/up'].map((name) => join(root, name)),
    )
  })

  test('names that are not UTF-8 are listed with replacement characters, and so are the entries below them', async () => {
    const root = at('bytes')
    const folder = Buffer.concat([Buffer.from(`${root}/b`), Buffer.from([0xff])])
    mkdirSync(root)
    mkdirSync(folder)
    writeFileSync(Buffer.concat([folder, Buffer.from('/inside')]), '')
    writeFileSync(join(root, 'a'), '')
    writeFileSync(join(root, 'ü\ufffd'), '')
    assert.deepEqual(
      await list(root, 2),
      ['a', 'b\ufffd', 'b\ufffd/inside', 'ü\ufffd'].map((name) => join(root, name)),
    )
  })

  test('an empty folder is an empty list', async () => {
    mkdirSync(at('hollow'))
    assert.deepEqual(await list(at('hollow')), [])
  })

  test('a file, a missing path and a circle of links are rejected', async () => {
    writeFileSync(at('plain'), '')
    symlinkSync('loop', at('loop'))
    const file = await call('ListDir', { path: at('plain') })
    assert.deepEqual(file.json, {
      code: 'invalid_argument',
      message: `path is not a directory: ${at('plain')}`,
    })
    assert.equal((await call('ListDir', { path: at('none') })).json.code, 'not_found')
    assert.equal((await call('ListDir', { path: at('loop') })).json.code, 'failed_precondition')
  })
})

suite('MakeDir, Move and Remove', () => {
  test('MakeDir creates a folder and its parents for the user', async () => {
    const { json } = await call('MakeDir', { path: at('made/deep') }, as('nobody'))
    assert.equal((json.entry as Json).path, at('made/deep'))
    for (const name of ['made', 'made/deep']) {
      assert.notEqual(statSync(at(name)).uid, 0)
      assert.equal(statSync(at(name)).mode & 0o7777, 0o755)
    }
  })

  test('an existing folder is already_exists, an existing file is rejected', async () => {
    assert.equal((await call('MakeDir', { path: agent.folder })).status, 409)
    writeFileSync(at('in-the-way'), '')
    assert.equal((await call('MakeDir', { path: at('in-the-way') })).status, 400)
    assert.equal((await call('MakeDir', { path: at('in-the-way/below') })).status, 400)
    symlinkSync('nowhere', at('leads-nowhere'))
    assert.equal((await call('MakeDir', { path: at('leads-nowhere') })).json.code, 'invalid_argument')
  })

  test('a move replaces a file and makes the folders above', async () => {
    writeFileSync(at('source'), 'new')
    mkdirSync(at('there'))
    writeFileSync(at('there/file'), 'old')
    const { json } = await call('Move', { source: at('source'), destination: at('there/file') })
    assert.equal((json.entry as Json).path, at('there/file'))
    assert.equal(readFileSync(at('there/file'), 'utf8'), 'new')
    await call('Move', { source: at('there'), destination: at('made-by-move/x') }, as('nobody'))
    assert.notEqual(statSync(at('made-by-move')).uid, 0)
    assert.equal(existsSync(at('there')), false)
  })

  test('a missing source is not_found', async () => {
    assert.equal((await call('Move', { source: at('none'), destination: at('x') })).status, 404)
  })

  test('a move to another file system keeps contents, links, owners and modes', async () => {
    mkdirSync(at('shelf'))
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', at('shelf')])
    try {
      mkdirSync(at('carried/inner'), { recursive: true })
      writeFileSync(at('carried/inner/file'), 'x', { mode: 0o640 })
      symlinkSync('inner/file', at('carried/link'))
      execFileSync('chown', ['-h', 'nobody', at('carried/inner/file')])
      const { status } = await call('Move', { source: at('carried'), destination: at('shelf/carried') })
      assert.equal(status, 200)
      assert.equal(existsSync(at('carried')), false)
      assert.equal((await entryOf(at('shelf/carried/link'))).isSymlink, true)
      const file = await entryOf(at('shelf/carried/inner/file'))
      assert.deepEqual([file.owner, file.mode], ['nobody', 0o640])
    } finally {
      execFileSync('umount', [at('shelf')])
    }
  })

  test('a removal takes everything below; a missing path is fine; the root stays', async () => {
    mkdirSync(at('gone/below'), { recursive: true })
    writeFileSync(at('gone/below/file'), '')
    symlinkSync('/etc', at('gone/etc'))
    assert.equal((await call('Remove', { path: at('gone') })).status, 200)
    assert.equal(existsSync(at('gone')), false)
    assert.equal(existsSync('/etc/passwd'), true)
    assert.equal((await call('Remove', { path: at('gone') })).status, 200)
    assert.equal((await call('Remove', { path: '/' })).status, 400)
  })
})
