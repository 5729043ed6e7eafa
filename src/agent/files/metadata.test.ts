import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, suite, test } from 'node:test'
import { type Json, useAgent } from '../agent-suite.ts'

const agent = useAgent()
// Not every kernel lets tmpfs keep attributes of users, and /tmp may be one.
const folder = mkdtempSync('/var/tmp/warren-metadata-')
after(() => rmSync(folder, { recursive: true, force: true }))
const at = (name: string) => join(folder, name)
const octets = { 'content-type': 'application/octet-stream' }

const upload = (name: string, headers: Record<string, string> = {}, body = 'x') =>
  agent.fetch('POST', `/files?path=${encodeURIComponent(at(name))}`, { ...octets, ...headers }, body)
const call = (method: string, message: Json, headers = {}) =>
  agent.unary(`filesystem.Filesystem/${method}`, message, headers)
const metadataOf = async (path: string) =>
  ((await call('Stat', { path })).json.entry as Json | undefined)?.metadata

suite('metadata of a file', () => {
  test('comes with an upload, is answered, and shows wherever the file does', async () => {
    const { json } = await upload('noted', { 'X-Metadata-Author': 'somebody', 'x-metadata-n': '' })
    const metadata = { author: 'somebody', n: '' }
    assert.deepEqual(json, [{ name: 'noted', path: at('noted'), type: 'file', metadata }])
    assert.deepEqual(await metadataOf(at('noted')), metadata)
    const listed = (await call('ListDir', { path: folder })).json.entries as Json[]
    assert.deepEqual(listed.find((entry) => entry.name === 'noted')?.metadata, metadata)
  })

  test('may have any names, even names with a meaning in JavaScript objects', async () => {
    const { json } = await upload('odd', { 'x-metadata-__proto__': 'a', 'x-metadata-constructor': 'b' })
    const pairs = [
      ['__proto__', 'a'],
      ['constructor', 'b'],
    ]
    const [answered] = json as unknown as [{ metadata: object }]
    assert.deepEqual(Object.entries(answered.metadata).sort(), pairs)
    assert.deepEqual(Object.entries((await metadataOf(at('odd'))) as object).sort(), pairs)
  })

  test('is replaced as a whole by the next upload, and cleared by one without any', async () => {
    await upload('twice', { 'x-metadata-a': '1', 'x-metadata-b': '2' })
    await upload('twice', { 'x-metadata-b': '3' })
    assert.deepEqual(await metadataOf(at('twice')), { b: '3' })
    await upload('twice')
    assert.equal(await metadataOf(at('twice')), undefined)
  })

  test('holds for all names of a file, and those stay names of one file', async () => {
    await upload('first', { 'x-metadata-a': '1' })
    linkSync(at('first'), at('second'))
    await upload('second', { 'x-metadata-b': '2' }, 'new')
    assert.equal(readFileSync(at('first'), 'utf8'), 'new')
    assert.equal(statSync(at('first')).nlink, 2)
    assert.deepEqual(await metadataOf(at('first')), { b: '2' })
    await upload('second')
    assert.equal(await metadataOf(at('first')), undefined)
  })

  test('goes with a move, also to another file system that keeps it', async () => {
    await upload('goer', { 'x-metadata-a': '1' })
    const { json } = await call('Move', { source: at('goer'), destination: at('gone/there') })
    assert.deepEqual((json.entry as Json).metadata, { a: '1' })
    const image = at('image')
    mkdirSync(at('disk'))
    execFileSync('truncate', ['-s', '8M', image])
    execFileSync('mkfs.ext4', ['-q', image])
    execFileSync('mount', ['-o', 'loop', image, at('disk')])
    try {
      const moved = await call('Move', { source: at('gone'), destination: at('disk/gone') })
      assert.equal(moved.status, 200)
      assert.deepEqual(await metadataOf(at('disk/gone/there')), { a: '1' })
    } finally {
      execFileSync('umount', [at('disk')])
    }
  })

  test('is rejected, before anything is written, if it exceeds the limits or is not printable ASCII', async () => {
    const headers: Record<string, string>[] = [
      { [`x-metadata-${'k'.repeat(247)}`]: '' },
      { 'x-metadata-a': 'v'.repeat(2500), 'x-metadata-b': 'v'.repeat(2500) },
      { 'x-metadata-a': 'gr\xfc\xdfe' },
      { 'x-metadata-a': 'tab\there' },
      { 'x-metadata-': 'no key' },
    ]
    for (const bad of headers) {
      const answer = await upload('rejected', bad)
      assert.equal(answer.status, 400, JSON.stringify(bad))
    }
    assert.equal(existsSync(at('rejected')), false)
    assert.equal((await upload('longest', { [`x-metadata-${'k'.repeat(246)}`]: 'v' })).status, 200)
    assert.deepEqual(await metadataOf(at('longest')), { ['k'.repeat(246)]: 'v' })
  })

  test('is rejected if the file system cannot store it, while an upload without metadata succeeds', async () => {
    mkdirSync(at('proc'))
    execFileSync('mount', ['-t', 'ramfs', 'ramfs', at('proc')])
    try {
      const answer = await upload('proc/file', { 'x-metadata-a': '1' })
      assert.equal(answer.status, 400)
      assert.match(String(answer.json.message), /keeps no metadata/)
      assert.equal(existsSync(at('proc/file')), false)
      assert.equal((await upload('proc/file')).status, 200)
      assert.equal((await upload('proc/file')).status, 200)
    } finally {
      execFileSync('umount', [at('proc')])
    }
  })

  test('is not sent to an old client with a strict parser', async () => {
    await upload('for-old', { 'x-metadata-a': '1' })
    const { json } = await call('Stat', { path: at('for-old') }, { 'user-agent': 'connect-python/0.4' })
    assert.equal((json.entry as Json).metadata, undefined)
  })
})

suite('compose', () => {
  const compose = (body: Json | string) =>
    agent.fetch(
      'POST',
      '/files/compose',
      { 'content-type': 'application/json' },
      typeof body === 'string' ? body : JSON.stringify(body),
    )

  test('makes one file of several, and removes the sources', async () => {
    for (const name of ['part1', 'part2', 'part3']) writeFileSync(at(name), name)
    const { status, json } = await compose({
      source_paths: [at('part2'), at('part1'), at('part3')],
      destination: at('made/whole'),
      username: 'nobody',
    })
    assert.deepEqual([status, json], [200, { name: 'whole', path: at('made/whole'), type: 'file' }])
    assert.equal(readFileSync(at('made/whole'), 'utf8'), 'part2part1part3')
    assert.notEqual(statSync(at('made/whole')).uid, 0)
    assert.equal(existsSync(at('part1')), false)
  })

  test('may have its destination among its sources', async () => {
    writeFileSync(at('grows'), 'a')
    writeFileSync(at('more'), 'b')
    const body = { source_paths: [at('grows'), at('more')], destination: at('grows'), username: null }
    assert.equal((await compose(body)).status, 200)
    assert.equal(readFileSync(at('grows'), 'utf8'), 'ab')
  })

  test('changes nothing when a source is missing, no file, or the request is wrong', async () => {
    writeFileSync(at('left'), 'left')
    const missing = await compose({ source_paths: [at('left'), at('none')], destination: at('out') })
    assert.equal(missing.status, 404)
    assert.equal((await compose({ source_paths: [folder], destination: at('out') })).status, 400)
    for (const body of ['', 'null', '[]', '{"source_paths":[],"destination":"x"}', '{"source_paths":["x"]}'])
      assert.equal((await compose(body)).status, 400, body)
    const stranger = { source_paths: [at('left')], destination: at('out'), username: 'stranger' }
    assert.equal((await compose(stranger)).status, 401)
    assert.equal(existsSync(at('out')), false)
    assert.equal(existsSync(at('left')), true)
  })

  test('needs the token', async () => {
    const answer = await agent.fetch('POST', '/files/compose', { 'x-access-token': 'wrong' }, '{}')
    assert.equal(answer.status, 401)
  })
})
