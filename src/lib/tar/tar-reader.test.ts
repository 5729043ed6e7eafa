import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fuzz, mutate } from '../../../test/support/fuzz.ts'
import { headerOf, type MadeEntry, paxOf, tarOf, withChecksum } from '../../images/archive-fixture.ts'
import { isAppError } from '../app-error.ts'
import type { TarEntry } from './tar-header.ts'
import { TarReader } from './tar-reader.ts'

type Read = TarEntry & { content: string }

function read(archive: Buffer, pieceSize = archive.length): Read[] {
  const found: Read[] = []
  const reader = new TarReader({
    entry: (entry) => found.push({ ...entry, content: '' }),
    data: (chunk) => {
      found.at(-1)!.content += chunk.toString('latin1')
    },
    fileEnd: () => {},
  })
  for (let at = 0; at < archive.length; at += pieceSize) reader.push(archive.subarray(at, at + pieceSize))
  reader.finish()
  return found
}

const longName = `${'d'.repeat(120)}/${'f'.repeat(120)}`
const everyKind: MadeEntry[] = [
  { name: 'etc/', type: '5', mode: 0o1777, uid: 3, gid: 4 },
  { name: 'etc/file', content: 'hello', mode: 0o4755, mtime: 1234 },
  { name: 'etc/empty' },
  { name: 'etc/link', type: '2', target: '../file' },
  { name: 'etc/hard', type: '1', target: 'etc/file', size: 5 },
  { name: 'pipe', type: '6' },
  { name: 'null', type: '3' },
  { name: './././@LongLink', type: 'L', content: `${longName}\0` },
  { name: 'cut', content: 'long' },
  {
    name: 'x',
    content: 'pax',
    pax: { path: 'ünï/ω', uid: '70000', mtime: '99.5', 'SCHILY.xattr.user.a': 'b=c\n' },
  },
]

for (const pieceSize of [1, 7, 512, 100_000]) {
  test(`an archive in pieces of ${pieceSize} bytes is read whole`, () => {
    const found = read(tarOf(everyKind), pieceSize)
    assert.deepEqual(
      found.map(({ kind, path, content, target }) => [kind, path, content || target]),
      [
        ['folder', 'etc/', ''],
        ['file', 'etc/file', 'hello'],
        ['file', 'etc/empty', ''],
        ['symlink', 'etc/link', '../file'],
        ['hardlink', 'etc/hard', 'etc/file'],
        ['fifo', 'pipe', ''],
        ['device', 'null', ''],
        ['file', longName, 'long'],
        ['file', Buffer.from('ünï/ω').toString('latin1'), 'pax'],
      ],
    )
    const [folder, file, , , , , , , last] = found
    assert.deepEqual([folder!.mode, folder!.uid, folder!.gid], [0o1777, 3, 4])
    assert.deepEqual([file!.mode, file!.mtime, file!.size], [0o4755, 1234, 5])
    assert.deepEqual([last!.uid, last!.mtime], [70_000, 99.5])
    assert.deepEqual(last!.xattrs, [['user.a', Buffer.from('b=c\n')]])
  })
}

test('numbers that do not fit octal are read as GNU and pax write them', () => {
  const block = headerOf({ name: 'big' }, 0)
  block.fill(0, 108, 116)
  block[108] = 0x80
  block.writeUInt32BE(3_000_000_000, 112)
  assert.equal(read(tarOf([], withChecksum(block)))[0]!.uid, 3_000_000_000)
  assert.equal(read(tarOf([{ name: 'a', pax: { size: '4' }, size: 0, content: 'four' }]))[0]!.content, 'four')
})

test('an extension header applies to one entry only', () => {
  const [first, second] = read(tarOf([{ name: 'a', pax: { path: 'other' } }, { name: 'b' }]))
  assert.deepEqual([first!.path, second!.path], ['other', 'b'])
})

test('bytes after the end of the archive are skipped', () => {
  assert.equal(
    read(Buffer.concat([tarOf([{ name: 'a' }]), Buffer.from('rubbish'), tarOf([{ name: 'b' }])])).length,
    1,
  )
})

test('an archive without the two empty blocks at its end is complete', () => {
  assert.equal(read(tarOf([{ name: 'a', content: 'x' }], Buffer.alloc(0))).length, 1)
})

const refused: Record<string, Buffer> = {
  'a wrong checksum': Buffer.concat([
    Buffer.from(headerOf({ name: 'a' }, 0)).fill('X', 0, 1),
    Buffer.alloc(1024),
  ]),
  'half a file': tarOf([{ name: 'a', content: 'x'.repeat(2000) }], Buffer.alloc(0)).subarray(0, 1000),
  'half a header': tarOf([{ name: 'a' }]).subarray(0, 100),
  'a long name for nothing': tarOf([{ name: 'l', type: 'L', content: 'name' }]),
  'an unknown type': tarOf([{ name: 'a', type: 'Q' }]),
  'a sparse file of GNU': tarOf([{ name: 'a', type: 'S' }]),
  'a sparse file in pax': tarOf([{ name: 'a', pax: { 'GNU.sparse.size': '1099511627776' } }]),
  'a size that is no number': tarOf([{ name: 'a', pax: { size: 'many' } }]),
  'a negative size': tarOf([{ name: 'a', pax: { size: '-5' } }]),
  'a size past counting': tarOf([{ name: 'a', pax: { size: '99999999999999999999' } }]),
  'an extension of a gigabyte': tarOf([{ name: 'a', type: 'x', size: 2 ** 30 }]),
  'pax records without length': tarOf([{ name: 'p', type: 'x', content: 'path=a\n' }, { name: 'a' }]),
  'pax records past their end': tarOf([{ name: 'p', type: 'x', content: '99 path=a\n' }, { name: 'a' }]),
  'a number that is not octal': tarOf(
    [],
    withChecksum(Buffer.from(headerOf({ name: 'a' }, 0)).fill('9', 124, 135)),
  ),
}

for (const [what, archive] of Object.entries(refused)) {
  test(`${what} is rejected with the reason`, () => {
    assert.throws(
      () => read(archive),
      (error) => isAppError(error, 'unprocessable') && /^An archive cannot/.test(error.message),
    )
  })
}

test('pax records are read to the byte, also where the length changes its own number of digits', () => {
  const value = 'v'.repeat(93)
  assert.equal(
    read(tarOf([{ name: 'p', type: 'x', content: paxOf({ path: value }) }, { name: 'a' }]))[0]!.path,
    value,
  )
})

test('an attribute that is not text keeps every byte', () => {
  const capability = Buffer.from([1, 0, 0, 2, 0, 0x20, 0, 0, 0xff, 0xfe, 0x80, 0, 0, 0, 0, 0])
  const pax = { 'SCHILY.xattr.security.capability': capability, path: Buffer.from([0x61, 0xff, 0x62]) }
  const [entry] = read(tarOf([{ name: 'ping', pax }]))
  assert.deepEqual(entry!.xattrs, [['security.capability', capability]])
  assert.equal(entry!.path, 'a\xffb')
})

test('a damaged archive is rejected with a reason or read the same, however it is cut', async () => {
  const whole = tarOf(everyKind)
  const isHeader = (block: Buffer) => block.toString('latin1', 257, 262) === 'ustar'
  const outcome = (archive: Buffer, pieceSize: number) => {
    try {
      return read(archive, pieceSize)
    } catch (error) {
      assert.ok(isAppError(error, 'unprocessable'), String(error))
      return error.message
    }
  }
  await fuzz(5, (random) => {
    const archive = mutate(whole, random)
    // With its checksums made right again, or nothing behind a damaged header would be read.
    for (let at = 0; at + 512 <= archive.length && random.chance(0.95); at += 512) {
      const block = archive.subarray(at, at + 512)
      if (isHeader(block)) withChecksum(block)
    }
    assert.deepEqual(outcome(archive, 1 + random.below(2000)), outcome(archive, archive.length + 1))
  })
})
