import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { test } from 'node:test'
import { constants, createZstdDecompress, zstdCompressSync } from 'node:zlib'
import { ZstdFrames } from './zstd-frames.ts'

const checksummed = { params: { [constants.ZSTD_c_checksumFlag]: 1 } }
const skippable = Buffer.from([0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3])
const noise = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * i * 7919) >> 5))
const contents = [Buffer.from('one '), Buffer.alloc(500_000, 'a'), noise, Buffer.alloc(0), Buffer.from('end')]
const frames = contents.map((content, i) => zstdCompressSync(content, i % 2 ? checksummed : {}))

async function unpack(stream: Buffer, pieceSize: number): Promise<Buffer> {
  const cutter = new ZstdFrames()
  function* pieces() {
    for (let at = 0; at < stream.length; at += pieceSize)
      yield* cutter.split(stream.subarray(at, at + pieceSize))
    cutter.finish()
  }
  const out: Buffer[] = []
  await pipeline(Readable.from(pieces()), createZstdDecompress(), async (chunks: AsyncIterable<Buffer>) => {
    for await (const chunk of chunks) out.push(chunk)
  })
  return Buffer.concat(out)
}

for (const pieceSize of [1000, 65_536, 10_000_000]) {
  test(`many frames, in pieces of ${pieceSize} bytes, are all unpacked`, async () => {
    const stream = Buffer.concat([skippable, ...frames.flatMap((frame) => [frame, skippable])])
    assert.ok((await unpack(stream, pieceSize)).equals(Buffer.concat(contents)))
  })
}

test('pieces of one byte are put together', async () => {
  const stream = Buffer.concat([skippable, frames[0]!, skippable, frames[4]!])
  assert.equal(String(await unpack(stream, 1)), 'one end')
})

test('a stream that ends within a frame is rejected', async () => {
  await assert.rejects(unpack(Buffer.concat(frames).subarray(0, -2), 65_536), /ends too early/)
})

test('bytes that are no frame are rejected', async () => {
  await assert.rejects(unpack(Buffer.concat([frames[0]!, Buffer.from('rubbish')]), 65_536), /damaged/)
})
