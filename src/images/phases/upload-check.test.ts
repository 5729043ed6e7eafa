import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { failsWith } from '../../../test/support/domain.ts'
import { headerOf, paxOf, tarOf } from '../archive-fixture.ts'
import { LocalBuildFiles } from './build-files.ts'
import { UploadCheck } from './upload-check.ts'

const maxBytes = 2 ** 20
const pieceBytes = 16 * 1024

/** How many bytes of the upload were taken before it was rejected, or all of them. */
async function check(upload: Buffer, maxEntries = 1000): Promise<number> {
  const upTo = new UploadCheck({ maxBytes, maxEntries })
  let written = 0
  for (let at = 0; at < upload.length; at += pieceBytes) {
    await upTo.add(upload.subarray(at, at + pieceBytes))
    written += pieceBytes
  }
  await upTo.finish()
  return Math.min(written, upload.length)
}

const folders = (count: number) =>
  tarOf(Array.from({ length: count }, (_, index) => ({ name: `${index}/`, type: '5' })))

/** The head of an archive with one file of `size` zeros, and a gzip member with 16 MiB of zeros. */
function zerosInParts(size: number): [head: Buffer, zeros: Buffer] {
  return [gzipSync(headerOf({ name: 'zeros', size }, 0)), gzipSync(Buffer.alloc(16 * 2 ** 20))]
}
const incompressible = gzipSync(randomBytes(64 * 1024))

describe('an upload', () => {
  it('is accepted within its limits, plain, with gzip and with zstd', async () => {
    const archive = tarOf([
      { name: 'a/', type: '5' },
      { name: 'a/b', content: 'c'.repeat(900_000) },
    ])
    for (const upload of [archive, gzipSync(archive), zstdCompressSync(archive)]) {
      assert.equal(await check(upload), upload.length)
    }
  })

  it('is rejected if it is small and unpacks to a lot', async () => {
    const archive = tarOf([{ name: 'zeros', content: Buffer.alloc(64 * 2 ** 20) }])
    for (const upload of [gzipSync(archive), zstdCompressSync(archive)]) {
      assert.ok(upload.length < 100_000)
      await assert.rejects(check(upload), failsWith('payload_too_large'))
    }
  })

  it('is counted as a whole if it has many gzip members', async () => {
    const archive = tarOf([{ name: 'zeros', content: Buffer.alloc(2 * maxBytes) }])
    const half = Math.floor(archive.length / 2)
    const members = [gzipSync(archive.subarray(0, half)), gzipSync(archive.subarray(half))]
    await assert.rejects(check(Buffer.concat(members)), failsWith('payload_too_large'))
  })

  it('is rejected with more entries than allowed', async () => {
    assert.ok((await check(gzipSync(folders(1000)))) > 0)
    await assert.rejects(check(gzipSync(folders(1001))), /may be 1000 at most/)
  })

  it('is rejected with a path that no file system accepts', async () => {
    const path = 'deep/'.repeat(1000)
    const archive = tarOf([
      { name: 'x', type: 'x', content: paxOf({ path }) },
      { name: 'short', type: '5' },
    ])
    await assert.rejects(check(archive), /longer than 4096 bytes/)
  })

  it('is rejected with the expected format if it is no archive, or half of one', async () => {
    const archive = tarOf([{ name: 'a', content: 'b'.repeat(10_000) }])
    const wrong = [
      Buffer.from('PK\x03\x04 a zip file'.padEnd(2000)),
      archive.subarray(0, 3000),
      gzipSync(archive).subarray(0, 60),
      Buffer.concat([Buffer.from([0x1f, 0x8b]), Buffer.alloc(2000, 7)]),
    ]
    for (const upload of wrong) {
      await assert.rejects(check(upload), /must come as a tar archive/)
    }
  })

  it('is rejected if it is packed in another way, or twice; an archive inside stays a file', async () => {
    const inner = gzipSync(tarOf([{ name: 'zeros', content: Buffer.alloc(64 * 2 ** 20) }]))
    const xz = Buffer.concat([Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a, 0]), randomBytes(2000)])
    const bzip2 = Buffer.concat([Buffer.from('BZh91AY&SY'), randomBytes(2000)])
    for (const upload of [
      xz,
      bzip2,
      gzipSync(inner),
      gzipSync(zstdCompressSync(inner)),
      zstdCompressSync(inner),
    ])
      await assert.rejects(check(upload), /must come as a tar archive/)
    const nested = tarOf([{ name: 'inner.tar.gz', content: inner }])
    assert.equal(await check(nested), nested.length)
  })

  it('is rejected with a sparse file, in which a few bytes mean terabytes', async () => {
    const old = tarOf([{ name: 'holes', type: 'S', size: 0 }])
    const pax = paxOf({ 'GNU.sparse.major': '1', 'GNU.sparse.realsize': String(2 ** 42) })
    const modern = tarOf([
      { name: 'x', type: 'x', content: pax },
      { name: 'holes', content: 'a' },
    ])
    for (const upload of [old, modern, gzipSync(modern)])
      await assert.rejects(check(upload), /must come as a tar/)
  })

  it('is rejected long before the limit of bytes if it unpacks to 1,000 times its size', async () => {
    let unpacked = 0
    const limits = { maxBytes: 2 ** 40, maxEntries: 1000 }
    const upTo = new UploadCheck(limits, (bytes) => {
      unpacked += bytes
    })
    const [head, zeros] = zerosInParts(2 ** 31)
    const sendAll = async () => {
      await upTo.add(head)
      for (let part = 0; part < 128; part++) await upTo.add(zeros)
      await upTo.finish()
    }
    await assert.rejects(sendAll(), /unpack to more than 250 times what was sent/)
    assert.ok(unpacked < 2 ** 29, `${unpacked} bytes were unpacked`)
  })

  it('is not unpacked any further after an abort', async () => {
    let unpacked = 0
    const limits = { maxBytes: 2 ** 40, maxEntries: 1000 }
    const upTo = new UploadCheck(limits, async (bytes) => {
      unpacked += bytes
      if (unpacked > 2 ** 20) upTo.close()
      await setImmediate()
    })
    const [head, zeros] = zerosInParts(2 ** 31)
    await assert.rejects(async () => {
      await upTo.add(head)
      for (let part = 0; part < 8; part++) await upTo.add(zeros)
      await upTo.finish()
    })
    assert.ok(unpacked < 8 * 2 ** 20, `${unpacked} bytes were unpacked`)
  })

  it('is aborted when its sender leaves, and others are accepted meanwhile', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'warren-upload-'))
    try {
      const files = new LocalBuildFiles(folder)
      const [head, zeros] = zerosInParts(2 ** 31)
      const gone = new AbortController()
      const bomb = async function* () {
        yield head
        // Fewer than 250 times, so that only the sender's leaving ends it.
        for (let part = 0; part < 128; part++) yield Buffer.concat([zeros, incompressible])
      }
      const bombs = Array.from({ length: 6 }, (_, at) =>
        files.write('a', String(at).repeat(64), bomb(), 2 ** 40, gone.signal),
      )
      const ends = Promise.allSettled(bombs)
      await files.write('b', 'ab'.repeat(32), Readable.from([tarOf([])]), maxBytes)
      assert.deepEqual(readdirSync(join(folder, 'b')), ['ab'.repeat(32)])
      assert.equal(readdirSync(join(folder, 'a')).length, 6)
      gone.abort()
      for (const { status } of await ends) assert.equal(status, 'rejected')
      assert.deepEqual(readdirSync(join(folder, 'a')), [])
      await assert.rejects(files.write('a', 'ab'.repeat(32), bomb(), maxBytes, gone.signal))
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

  it('leaves nothing on the disk if it is rejected, and its sender is not read to the end', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'warren-upload-'))
    try {
      const files = new LocalBuildFiles(folder)
      let sent = 0
      const endless = async function* () {
        for (;;) {
          sent += pieceBytes
          yield gzipSync(Buffer.alloc(2 ** 18))
        }
      }
      const written = files.write('a', 'ab'.repeat(32), endless(), maxBytes)
      await assert.rejects(written, failsWith('payload_too_large'))
      assert.ok(sent > 0)
      assert.deepEqual(readdirSync(join(folder, 'a')), [])
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
