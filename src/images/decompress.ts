/**
 * Decompresses an archive as it arrives. Its first bytes determine the format, because media types are wrong
 * too often.
 */
import { pipeline } from 'node:stream/promises'
import { constants, createGunzip, createZstdDecompress } from 'node:zlib'
import { ZstdFrames } from './zstd-frames.ts'

const outputChunk = 256 * 1024

/** `use` gets the plain bytes as they come; if it throws, no more is read. */
export async function decompress(
  chunks: AsyncGenerator<Buffer>,
  use: (chunks: AsyncIterable<Buffer>) => Promise<void>,
): Promise<void> {
  const head = await firstBytes(chunks)
  const whole = restored(head, chunks)
  if (head[0] === 0x1f && head[1] === 0x8b) {
    return pipeline(whole, createGunzip({ chunkSize: outputChunk }), use)
  }
  if (isZstd(head)) {
    const params = { [constants.ZSTD_d_windowLogMax]: 27 }
    return pipeline(cutAtFrames(whole), createZstdDecompress({ chunkSize: outputChunk, params }), use)
  }
  return use(whole)
}

/** True if a failure of `decompress` means that the compressed data is damaged. */
export const isDamagedData = (error: unknown): boolean =>
  /^(?:Z_|ERR_|ZSTD_)/.test(String((error as { code?: unknown } | null)?.code ?? ''))

async function firstBytes(chunks: AsyncGenerator<Buffer>): Promise<Buffer> {
  const parts: Buffer[] = []
  for (let size = 0; size < 4; ) {
    const { value, done } = await chunks.next()
    if (done) break
    parts.push(Buffer.from(value))
    size += value.length
  }
  return Buffer.concat(parts)
}

async function* restored(head: Buffer, rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  if (head.length > 0) yield head
  yield* rest
}

async function* cutAtFrames(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const frames = new ZstdFrames()
  for await (const chunk of chunks) yield* frames.split(chunk)
  frames.finish()
}

function isZstd(head: Buffer): boolean {
  if (head.length < 4) return false
  const found = head.readUInt32LE()
  return found === 0xfd2fb528 || (found & 0xfffffff0) >>> 0 === 0x184d2a50
}
