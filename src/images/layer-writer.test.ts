import assert from 'node:assert/strict'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { test } from 'node:test'
import { isWhiteout, write, xattrs } from './layer-fixture.ts'

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

test('owners are shifted, and ids that a sandbox does not map become the last mapped one', () => {
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

test('attributes of users and capabilities are kept, and attributes for overlayfs and SELinux are not', () => {
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

test('a removal in a layer becomes a whiteout of overlayfs', () => {
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

test('a layer that removes a name and adds it again hides only the layers below, in either order', () => {
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

test('the later of two entries of one name wins, whatever the earlier was', () => {
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

test('writing to the later name of a hard link leaves the earlier unchanged', () => {
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

test('device nodes are left out and counted, also those that look like a whiteout', () => {
  const { at, facts } = write([
    { name: 'dev/sda', type: '4' },
    { name: 'dev/null', type: '3' },
    { name: 'x', type: '3' },
  ])
  assert.equal(facts.devicesLeftOut, 3)
  assert.deepEqual(readdirSync(at('')), [])
})
