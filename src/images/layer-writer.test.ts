import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  type Stats,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { isAppError } from '../lib/app-error.ts'
import { type MadeEntry, tarOf } from './archive-fixture.ts'
import { LayerWriter } from './layer-writer.ts'
import { openLibc } from './libc.ts'
import { TarReader } from './tar-reader.ts'

const home = mkdtempSync(join(tmpdir(), 'warren-layer-'))
after(() => rmSync(home, { recursive: true, force: true }))
const libc = openLibc()
const outside = join(home, 'outside')
writeFileSync(outside, 'untouched')
let made = 0

function write(entries: readonly MadeEntry[], { ownerShift = 0, maxEntries = 1000 } = {}) {
  const folder = join(home, `layer-${++made}`)
  mkdirSync(folder)
  const writer = new LayerWriter({ folder, ownerShift, maxEntries, libc })
  const reader = new TarReader(writer)
  try {
    reader.push(tarOf(entries))
    reader.finish()
  } finally {
    writer.close()
  }
  const facts = writer.finish()
  return {
    facts,
    at: (path: string) => join(folder, path),
    stat: (path: string) => lstatSync(join(folder, path)),
  }
}

const xattrs = (path: string): string =>
  execFileSync('python3', [
    '-c',
    'import os,sys\nfor n in sorted(os.listxattr(sys.argv[1],follow_symlinks=False)): print(n, os.getxattr(sys.argv[1],n,follow_symlinks=False).hex())',
    path,
  ]).toString()
const isWhiteout = (stat: Stats) => stat.isCharacterDevice() && stat.rdev === 0
const nothingOutside = () => {
  assert.equal(readFileSync(outside, 'utf8'), 'untouched')
  assert.deepEqual(
    readdirSync(home).filter((name) => !name.startsWith('layer-')),
    ['outside'],
  )
}

test('files, folders, links and fifos get their content, modes, owners and times', () => {
  const { at, stat } = write([
    { name: './', type: '5', mode: 0o700, mtime: 500 },
    { name: 'd/', type: '5', mode: 0o2750, uid: 5, gid: 6, mtime: 1000 },
    { name: 'd/su', content: 'run', mode: 0o6755, uid: 7, gid: 8, mtime: 2000 },
    { name: 'd/sticky/', type: '5', mode: 0o1777 },
    { name: 'd/link', type: '2', target: '/no/where', uid: 9, mtime: 3000 },
    { name: 'd/hard', type: '1', target: './d/su' },
    { name: 'd/pipe', type: '6', mode: 0o620, uid: 1 },
    { name: 'a\nb', content: 'newline' },
  ])
  assert.deepEqual([stat('').mode & 0o7777, stat('').mtimeMs], [0o700, 500_000])
  assert.deepEqual(
    [stat('d').mode & 0o7777, stat('d').uid, stat('d').gid, stat('d').mtimeMs],
    [0o2750, 5, 6, 1_000_000],
  )
  assert.deepEqual(
    [stat('d/su').mode & 0o7777, stat('d/su').uid, stat('d/su').gid, stat('d/su').mtimeMs],
    [0o6755, 7, 8, 2_000_000],
  )
  assert.equal(stat('d/sticky').mode & 0o7777, 0o1777)
  assert.deepEqual(
    [readlinkSync(at('d/link')), stat('d/link').uid, stat('d/link').mtimeMs],
    ['/no/where', 9, 3_000_000],
  )
  assert.equal(stat('d/hard').ino, stat('d/su').ino)
  assert.ok(stat('d/pipe').isFIFO() && (stat('d/pipe').mode & 0o7777) === 0o620)
  assert.equal(readFileSync(at('a\nb'), 'utf8'), 'newline')
})

test('owners are shifted, and those a sandbox does not map become the last one', () => {
  const { stat } = write(
    [
      { name: 'a', uid: 1000, gid: 0, mode: 0o4755 },
      { name: 'b', type: '2', target: 'a', pax: { uid: '4000000000' } },
      { name: 'p/q', content: '' },
      { name: '.wh.gone' },
    ],
    { ownerShift: 100_000 },
  )
  assert.deepEqual([stat('a').uid, stat('a').gid, stat('a').mode & 0o7777], [101_000, 100_000, 0o4755])
  assert.equal(stat('b').uid, 165_535)
  for (const path of ['', 'p', 'p/q', 'gone'])
    assert.deepEqual([stat(path).uid, stat(path).gid], [100_000, 100_000], path)
})

test('attributes of users and capabilities are kept, those that steer the kernel are not', () => {
  const capability = Buffer.from('0100000200200000000000000000000000000000', 'hex')
  const pax = {
    'SCHILY.xattr.user.note': 'hi',
    'SCHILY.xattr.security.capability': capability,
    'SCHILY.xattr.trusted.overlay.redirect': '/etc',
    'SCHILY.xattr.trusted.overlay.opaque': 'y',
    'SCHILY.xattr.user.overlay.opaque': 'y',
    'SCHILY.xattr.security.selinux': 'label',
  }
  const plain = write([{ name: 'ping', content: 'x', pax }])
  assert.equal(
    xattrs(plain.at('ping')),
    `security.capability ${capability.toString('hex')}\nuser.note 6869\n`,
  )
  const shifted = write([{ name: 'ping', content: 'x', pax, uid: 2 }], { ownerShift: 100_000 })
  assert.match(xattrs(shifted.at('ping')), /^security.capability 010000030020000000000000[0]{16}a0860100\n/)
})

test('what a layer removes becomes what overlayfs takes for removed', () => {
  const { stat, at, facts } = write([
    { name: 'etc/.wh.passwd' },
    { name: 'opt/', type: '5' },
    { name: 'opt/.wh..wh..opq' },
    { name: 'opt/new', content: 'n' },
    { name: '.wh..wh.plnk', content: '' },
  ])
  assert.ok(isWhiteout(stat('etc/passwd')))
  assert.equal(xattrs(at('opt')), 'trusted.overlay.opaque 79\n')
  assert.deepEqual(readdirSync(at('')).sort(), ['etc', 'opt'])
  assert.equal(facts.opaqueRoot, false)
  assert.equal(write([{ name: '.wh..wh..opq' }]).facts.opaqueRoot, true)
})

test('a layer that removes a name and gives it anew hides only what is below, in either order', () => {
  const whiteout = { name: '.wh.x' }
  for (const entries of [
    [whiteout, { name: 'x/', type: '5' }, { name: 'x/y', content: 'y' }],
    [{ name: 'x/', type: '5' }, { name: 'x/y', content: 'y' }, whiteout],
    [whiteout, { name: 'x/y', content: 'y' }],
  ]) {
    const { at } = write(entries)
    assert.equal(readFileSync(at('x/y'), 'utf8'), 'y')
    assert.equal(xattrs(at('x')), 'trusted.overlay.opaque 79\n')
  }
  assert.equal(readFileSync(write([whiteout, { name: 'x', content: 'new' }]).at('x'), 'utf8'), 'new')
  assert.equal(readFileSync(write([{ name: 'x', content: 'new' }, whiteout]).at('x'), 'utf8'), 'new')
})

test('the later of two entries of one name counts, whatever the earlier was', () => {
  const last = { name: 'x', content: 'last' }
  const folder = [
    { name: 'x/', type: '5' },
    { name: 'x/deep/file', content: 'f' },
  ]
  for (const before of [
    [{ name: 'x', content: 'first' }],
    folder,
    [{ name: 'x', type: '2', target: '/etc' }],
  ]) {
    assert.equal(readFileSync(write([...before, last]).at('x'), 'utf8'), 'last')
  }
  const { at } = write([...folder, last, { name: 'x/', type: '5' }, { name: 'x/deep/again', content: 'a' }])
  assert.deepEqual(readdirSync(at('x/deep')), ['again'])
  const twice = write([
    { name: 'x/', type: '5', mode: 0o700 },
    { name: 'x/f', content: 'f' },
    { name: 'x/', type: '5', mode: 0o711 },
  ])
  assert.equal(readFileSync(twice.at('x/f'), 'utf8'), 'f')
  assert.equal(twice.stat('x').mode & 0o7777, 0o711)
})

test('writing to the later name of a hard link leaves the earlier as it was', () => {
  const { at } = write([
    { name: 'a', content: 'old' },
    { name: 'b', type: '1', target: 'a' },
    { name: 'b', content: 'new' },
  ])
  assert.deepEqual([readFileSync(at('a'), 'utf8'), readFileSync(at('b'), 'utf8')], ['old', 'new'])
})

test('a hard link to itself keeps the file', () => {
  const { at } = write([
    { name: 'a', content: 'kept' },
    { name: './a', type: '1', target: '/a' },
  ])
  assert.equal(readFileSync(at('a'), 'utf8'), 'kept')
})

test('device nodes are left out and counted, also those that look like a removal', () => {
  const { at, facts } = write([
    { name: 'dev/sda', type: '4' },
    { name: 'dev/null', type: '3' },
    { name: 'x', type: '3' },
  ])
  assert.equal(facts.devicesLeftOut, 3)
  assert.deepEqual(readdirSync(at('')), [])
})

test('names from the root are taken from the layer', () => {
  const { at } = write([
    { name: '/etc/file', content: 'in' },
    { name: '/hard', type: '1', target: '/etc/file' },
  ])
  assert.equal(readFileSync(at('hard'), 'utf8'), 'in')
})

test('a link in the way of a file is followed within the layer and nowhere else', () => {
  for (const target of [home, '../../../../../../..', '/', '/proc/self/root', '..', 'a/../../..']) {
    const { at } = write([
      { name: 'l', type: '2', target },
      { name: 'l/outside', content: 'evil' },
    ])
    assert.ok(lstatSync(at('l')).isSymbolicLink())
    const inside = execFileSync('find', [at(''), '-name', 'outside']).toString()
    assert.match(inside, /outside\n$/, target)
    nothingOutside()
  }
  const { at } = write([
    { name: 'usr/bin/', type: '5' },
    { name: 'bin', type: '2', target: 'usr/bin' },
    { name: 'bin/sh', content: 'shell' },
  ])
  assert.equal(readFileSync(at('usr/bin/sh'), 'utf8'), 'shell')
})

test('a file over a link replaces the link', () => {
  const { at, stat } = write([
    { name: 'l', type: '2', target: outside },
    { name: 'l', content: 'evil' },
  ])
  assert.ok(stat('l').isFile())
  assert.equal(readFileSync(at('l'), 'utf8'), 'evil')
  nothingOutside()
})

test('a folder over a link replaces the link, and gives nothing to what it pointed to', () => {
  const { stat } = write([
    { name: 'l', type: '2', target: home },
    { name: 'l/', type: '5', mode: 0o777, uid: 42 },
  ])
  assert.ok(stat('l').isDirectory())
  assert.notEqual(lstatSync(home).uid, 42)
})

test('what is removed through a link is removed in the layer', () => {
  const { at } = write([
    { name: 'l', type: '2', target: home },
    { name: 'l/.wh.outside' },
    { name: 'l/.wh..wh..opq' },
  ])
  assert.ok(lstatSync(at('l')).isSymbolicLink())
  assert.ok(isWhiteout(lstatSync(join(at(''), home, 'outside'))))
  nothingOutside()
})

const refused: Record<string, MadeEntry[]> = {
  'a name with ..': [{ name: '../outside', content: 'evil' }],
  'a name with .. within': [{ name: 'a/../../outside', content: 'evil' }],
  'a folder ..': [{ name: '..', type: '5', mode: 0o777 }],
  'a hard link to a file outside': [{ name: 'l', type: '1', target: '../outside' }],
  'a hard link to a file of the machine': [{ name: 'l', type: '1', target: '/etc/passwd' }],
  'a hard link through a link': [
    { name: 'd', type: '2', target: home },
    { name: 'l', type: '1', target: 'd/outside' },
  ],
  'a hard link to a folder': [
    { name: 'd/', type: '5' },
    { name: 'l', type: '1', target: 'd' },
  ],
  'a hard link to a removal': [{ name: '.wh.d' }, { name: 'l', type: '1', target: 'd' }],
  'a removal of ..': [{ name: 'a/.wh...', content: '' }],
  'a removal of .': [{ name: 'a/.wh..', content: '' }],
  'a removal of nothing': [{ name: '.wh.' }],
  'a file within a file': [
    { name: 'f', content: 'x' },
    { name: 'f/g', content: 'evil' },
  ],
  'links in a ring': [
    { name: 'a', type: '2', target: 'b' },
    { name: 'b', type: '2', target: 'a' },
    { name: 'a/f', content: 'x' },
  ],
  'a name with a zero byte': [{ name: 'a', pax: { path: 'a\0b' } }],
  'a link with a zero byte': [{ name: 'a', type: '2', pax: { linkpath: 'a\0b' } }],
  'a link to nowhere': [{ name: 'a', type: '2', target: '' }],
  'a name part of 256 bytes': [{ name: 'a', pax: { path: 'n'.repeat(256) } }],
  'a name of 5000 bytes': [{ name: 'a', pax: { path: 'n/'.repeat(2500) } }],
  'a root that is a link': [{ name: './', type: '2', target: home }],
}

for (const [what, entries] of Object.entries(refused)) {
  test(`${what} is refused in words, and nothing outside is touched`, () => {
    assert.throws(
      () => write(entries),
      (error) => isAppError(error, 'unprocessable'),
    )
    nothingOutside()
    assert.ok(!existsSync(join(home, 'evil')))
  })
}

test('more entries than allowed are refused', () => {
  const many = Array.from({ length: 11 }, (_, i) => ({ name: `f${i}` }))
  assert.throws(() => write(many, { maxEntries: 10 }), /more than 10 entries/)
})
