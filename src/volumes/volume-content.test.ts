/** The content of a volume whose every entry may be hostile. */
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import {
  appendFileSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import { describe, it } from 'node:test'
import type { VolumeEntry } from '../core/volume/volume-files.ts'
import { EntryOwners } from './entry.ts'
import { openFolder } from './path-walk.ts'
import { listLeftovers, removeLeftovers } from './removal.ts'
import { VolumeContent } from './volume-content.ts'

const firstOwner = 200_000

async function openVolume() {
  const root = mkdtempSync(join(tmpdir(), 'warren-content-'))
  for (const name of ['files', 'incoming', 'outside']) mkdirSync(join(root, name))
  writeFileSync(join(root, 'outside/secret'), 'of the host')
  const files = await openFolder(join(root, 'files'))
  const incoming = await openFolder(join(root, 'incoming'))
  const content = new VolumeContent({ files, incoming }, new EntryOwners(firstOwner))
  return {
    root,
    content,
    incoming,
    inside: (path: string) => join(root, 'files', path),
    outside: join(root, 'outside'),
    leftovers: () => readdirSync(join(root, 'incoming')),
    write: (path: string, data: string, replace = false) => content.write(path, pieces(data), {}, replace),
    read: async (path: string) => text((await content.read(path, whole)).stream),
    async [Symbol.asyncDispose]() {
      await files.close()
      await incoming.close()
      rmSync(root, { recursive: true, force: true })
    },
  }
}

const pieces = (data: string) => Readable.from([Buffer.from(data)]) as AsyncIterable<Buffer>
const whole = (size: number) => ({ start: 0, length: size })

async function listed(content: VolumeContent, path: string, depth = 1): Promise<VolumeEntry[]> {
  const entries: VolumeEntry[] = []
  for await (const part of content.list(path, depth)) entries.push(...part)
  return entries
}

describe('the content of a volume', () => {
  it('has owners as sandboxes see them, and default ones for new files', async () => {
    await using volume = await openVolume()
    const written = await volume.write('/file', 'x')
    assert.deepEqual([written.uid, written.gid, written.mode], [1000, 1000, 0o644])
    assert.equal(lstatSync(volume.inside('file')).uid, firstOwner + 1000)
    const folder = await volume.content.makeFolder('/a/b', { uid: 0, mode: 0o2770 }, true)
    assert.deepEqual([folder.uid, folder.gid, folder.mode], [0, 1000, 0o2770])
    assert.equal((await volume.content.stat('/a')).mode, 0o2770)
    const changed = await volume.content.change('/file', { gid: 65_535 })
    assert.deepEqual([changed.uid, changed.gid, changed.mode], [1000, 65_535, 0o644])
    await assert.rejects(volume.content.change('/file', { uid: 65_536 }), { code: 'invalid_argument' })
    writeFileSync(volume.inside('of-the-host'), '')
    assert.equal((await volume.content.stat('/of-the-host')).uid, 65_534)
  })

  it('is written whole or not at all, and replaced only by force', async () => {
    await using volume = await openVolume()
    async function* cutOff() {
      yield Buffer.from('half')
      throw new Error('the client has gone')
    }
    await assert.rejects(volume.content.write('/file', cutOff(), {}, false), /has gone/)
    assert.deepEqual([existsSync(volume.inside('file')), volume.leftovers()], [false, []])
    await volume.write('/file', 'first')
    linkSync(volume.inside('file'), volume.inside('twin'))
    await assert.rejects(volume.write('/file', 'second'), { code: 'already_exists' })
    await assert.rejects(volume.content.write('/file', cutOff(), {}, true), /has gone/)
    assert.equal(await volume.read('/file'), 'first')
    await volume.write('/file', 'second', true)
    assert.deepEqual([await volume.read('/file'), await volume.read('/twin')], ['second', 'first'])
    mkdirSync(volume.inside('folder'))
    await assert.rejects(volume.write('/folder', 'x', true), { code: 'already_exists' })
    await assert.rejects(volume.write('/', 'x', true), { code: 'already_exists' })
    await assert.rejects(volume.write('/missing/file', 'x'), { code: 'not_found' })
    assert.deepEqual(volume.leftovers(), [])
  })

  it('is written by exactly one of several writers at once without force', async () => {
    await using volume = await openVolume()
    const all = await Promise.allSettled(
      Array.from({ length: 10 }, (_, at) => volume.write('/file', String(at))),
    )
    assert.equal(all.filter(({ status }) => status === 'fulfilled').length, 1)
    assert.deepEqual(volume.leftovers(), [])
  })

  it('never leads outside: by .., by links of every shape, by folders that are swapped meanwhile', async () => {
    await using volume = await openVolume()
    const { content, outside, inside } = volume
    symlinkSync(outside, inside('absolute'))
    symlinkSync('../outside', inside('relative'))
    symlinkSync(join(outside, 'secret'), inside('file-link'))
    symlinkSync('/proc/self/root', inside('magic'))
    symlinkSync('loop', inside('loop'))
    mkdirSync(inside('deep'))
    symlinkSync('../../../outside', inside('deep/up'))
    const paths = [
      '/../outside/secret',
      '/absolute/secret',
      '/relative/secret',
      '/file-link',
      '/deep/up/secret',
    ]
    for (const path of [...paths, `/magic${outside}/secret`, '/deep/../../outside/secret', '/loop']) {
      await assert.rejects(volume.read(path), { code: /not_found|invalid_argument/ }, path)
      await assert.rejects(
        content.change(path, { mode: 0o777 }),
        { code: /not_found|invalid_argument/ },
        path,
      )
    }
    for (const path of [
      '/absolute/new',
      '/relative/new',
      '/deep/up/new',
      `/magic${outside}/new`,
      '/../outside/new',
    ]) {
      await assert.rejects(volume.write(path, 'x', true), { code: 'not_found' }, path)
      await assert.rejects(content.remove(path.replace('new', 'secret')), { code: 'not_found' }, path)
      await assert.rejects(listed(content, path.replace('/new', '')), { code: 'not_found' }, path)
    }
    // With parents, the folders that a link names are made inside.
    await content.makeFolder('/absolute/x', {}, true)
    assert.deepEqual(readdirSync(outside), ['secret'])
    assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'of the host')
    assert.equal(lstatSync(join(outside, 'secret')).mode & 0o777, 0o644)
  })

  it('follows links within the volume, and shows them as links', async () => {
    await using volume = await openVolume()
    mkdirSync(volume.inside('a/b'), { recursive: true })
    await volume.write('/a/file', 'found')
    symlinkSync('/a', volume.inside('to-a'))
    symlinkSync('../file', volume.inside('a/b/up'))
    assert.equal(await volume.read('/to-a/b/up'), 'found')
    const link = await volume.content.stat('/to-a')
    assert.deepEqual([link.type, link.target], ['symlink', '/a'])
    assert.deepEqual((await listed(volume.content, '/to-a')).map(({ path }) => path).sort(), [
      '/to-a/b',
      '/to-a/file',
    ])
    await volume.content.remove('/to-a')
    assert.equal(await volume.read('/a/file'), 'found')
    await volume.write('/a/b/up', 'replaced', true)
    assert.equal(await volume.read('/a/file'), 'found', 'what a link led to stays when the link is replaced')
  })

  it('stays inside while a sandbox swaps a folder for a link again and again', async () => {
    await using volume = await openVolume()
    mkdirSync(volume.inside('folder'))
    writeFileSync(volume.inside('folder/secret'), 'of the volume')
    symlinkSync(volume.outside, volume.inside('link'))
    const swap = `while :; do mv -T folder kept; mv -T link folder; mv -T folder link; mv -T kept folder; done`
    const attacker = spawn('sh', ['-c', swap], { cwd: volume.inside('.'), stdio: 'ignore' })
    try {
      for (let round = 0; round < 300; round++) {
        const seen = await volume.read('/folder/secret').catch(() => 'nothing')
        assert.notEqual(seen, 'of the host')
        await volume.write(`/folder/new-${round}`, 'x').catch(() => {})
        await volume.content.remove(`/folder/new-${round}`).catch(() => {})
      }
    } finally {
      attacker.kill('SIGKILL')
    }
    assert.deepEqual(readdirSync(volume.outside), ['secret'])
  })

  it('has special files that are listed and removed, but never opened', async () => {
    await using volume = await openVolume()
    execFileSync('mkfifo', [volume.inside('fifo')])
    execFileSync('mknod', [volume.inside('device'), 'c', '1', '5'])
    symlinkSync('/fifo', volume.inside('to-fifo'))
    for (const path of ['/fifo', '/device', '/to-fifo', '/']) {
      await assert.rejects(volume.read(path), { code: 'invalid_argument' }, path)
    }
    assert.equal((await volume.content.stat('/fifo')).type, 'unknown')
    await volume.content.remove('/fifo')
    await volume.write('/device', 'a file now', true)
    assert.equal(await volume.read('/device'), 'a file now')
  })

  it('is read to its length at the start while the file grows, and a file that shrinks fails', async () => {
    await using volume = await openVolume()
    const size = 2 * 1024 * 1024
    writeFileSync(volume.inside('grows'), Buffer.alloc(size))
    writeFileSync(volume.inside('shrinks'), Buffer.alloc(size))
    const growing = await volume.content.read('/grows', whole)
    appendFileSync(volume.inside('grows'), 'more')
    assert.equal((await buffer(growing.stream)).length, size)
    const shrinking = await volume.content.read('/shrinks', whole)
    truncateSync(volume.inside('shrinks'), 1000)
    await assert.rejects(buffer(shrinking.stream), /became shorter/)
    const part = await volume.content.read('/grows', () => ({ start: size, length: 4 }))
    assert.equal(await text(part.stream), 'more')
  })

  it('is listed to the requested depth, for any names', async () => {
    await using volume = await openVolume()
    mkdirSync(volume.inside('a/b/c'), { recursive: true })
    writeFileSync(
      Buffer.concat([Buffer.from(volume.inside('x').slice(0, -1)), Buffer.from([0xff, 0xfe])]),
      '',
    )
    writeFileSync(volume.inside('new\nline'), '')
    const names = async (depth: number) =>
      (await listed(volume.content, '/', depth)).map(({ path }) => path).sort()
    assert.deepEqual(await names(1), ['/a', '/new\nline', '/\ufffd\ufffd'])
    assert.deepEqual(
      (await names(4_000_000_000)).filter((path) => path.startsWith('/a')),
      ['/a', '/a/b', '/a/b/c'],
    )
    await assert.rejects(listed(volume.content, '/new\nline'), { code: 'invalid_argument' })
    for (const path of ['/\0', `/${'x'.repeat(300)}`, `/${'x/'.repeat(3000)}`]) {
      await assert.rejects(listed(volume.content, path), { code: 'invalid_argument' })
    }
  })

  it('may be a huge folder or a tree of a thousand levels, which is listed and removed', async () => {
    await using volume = await openVolume()
    mkdirSync(volume.inside('many'))
    for (let at = 0; at < 3000; at++) writeFileSync(volume.inside(`many/${at}`), '')
    assert.equal((await listed(volume.content, '/many')).length, 3000)
    mkdirSync(volume.inside(`deep/${'d/'.repeat(1000)}`), { recursive: true })
    assert.ok((await listed(volume.content, '/deep', 5000)).length > 100)
    await volume.content.remove('/many')
    await volume.content.remove('/deep')
    assert.deepEqual([readdirSync(volume.inside('')), volume.leftovers()], [[], []])
    await assert.rejects(volume.content.remove('/'), { code: 'invalid_argument' })
    await assert.rejects(volume.content.remove('/many'), { code: 'not_found' })
  })

  it('loses unfinished writes and removals of a dead process, and nothing else', async () => {
    await using volume = await openVolume()
    writeFileSync(join(volume.root, 'incoming/upload'), 'half')
    mkdirSync(volume.inside('folder/below'), { recursive: true })
    renameSync(volume.inside('folder'), join(volume.root, 'incoming/removed-1'))
    symlinkSync(volume.outside, join(volume.root, 'incoming/removed-1/below/link'))
    await removeLeftovers(volume.incoming, await listLeftovers(volume.incoming))
    assert.deepEqual([volume.leftovers(), readdirSync(volume.outside)], [[], ['secret']])
  })
})
