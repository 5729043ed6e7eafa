/** A worker thread that verifies, unpacks and writes a layer. It reports every failure in a message and throws none. */
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { parentPort } from 'node:worker_threads'
import { constants, createGunzip, createZstdDecompress } from 'node:zlib'
import { AppError, errorText } from '../lib/app-error.ts'
import { hasherFor, wrongDigest } from './digest.ts'
import { openFileSystemCalls } from './file-system-calls.ts'
import { type LayerFacts, LayerWriter } from './layer-writer.ts'
import { TarReader } from './tar-reader.ts'
import type { FromWorker, ToWorker, UnpackJob } from './unpack-protocol.ts'
import { ZstdFrames } from './zstd-frames.ts'

const port = parentPort!
const tell = (message: FromWorker): void => port.postMessage(message)
const outputChunk = 256 * 1024

let input: Readable | undefined

port.on('message', (message: ToWorker) => {
  if (message.type === 'unpack') {
    input = new Readable({ read() {} })
    answer(unpack(message.job, input))
  } else if (message.type === 'chunk') input?.push(message.bytes)
  else if (message.type === 'end') input?.push(null)
})

function answer(work: Promise<LayerFacts>): void {
  work.then(
    (facts) => tell({ type: 'done', facts }),
    (error) => tell({ type: 'failed', ...describe(error), cause: String((error as Error)?.stack ?? error) }),
  )
}

async function unpack(job: UnpackJob, source: Readable): Promise<LayerFacts> {
  const writer = new LayerWriter({ ...job, calls: openFileSystemCalls() })
  try {
    const archive = hasherFor(job.diffID)
    const reader = new TarReader(writer)
    let unpackedBytes = 0
    const use = async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) {
        unpackedBytes += chunk.length
        if (unpackedBytes > job.maxBytes) throw tooLarge(job.maxBytes)
        archive.update(chunk)
        reader.push(chunk)
      }
    }
    await decompressed(
      verified(source, job.digest, () => unpackedBytes),
      use,
    )
    reader.finish()
    if (`${job.diffID.split(':')[0]}:${archive.digest('hex')}` !== job.diffID) {
      throw wrongDigest('An unpacked layer', job.diffID)
    }
    return writer.finish()
  } finally {
    writer.close()
  }
}

/** Passes the chunks on as they come, and throws after the last one unless they match the digest. */
async function* verified(
  source: Readable,
  digest: string,
  unpackedBytes: () => number,
): AsyncGenerator<Buffer> {
  const hasher = hasherFor(digest)
  for await (const chunk of source as AsyncIterable<Buffer>) {
    hasher.update(chunk)
    yield chunk
    tell({ type: 'consumed', bytes: chunk.length, unpackedBytes: unpackedBytes() })
  }
  if (`${digest.split(':')[0]}:${hasher.digest('hex')}` !== digest) throw wrongDigest('A layer', digest)
}

/** The first bytes of a layer say how it is compressed: media types are wrong too often. */
async function decompressed(
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

function tooLarge(maxBytes: number): AppError {
  const limit = Math.round(maxBytes / 2 ** 20)
  return new AppError(
    'payload_too_large',
    `The image unpacks to more than ${limit} MB, which is the limit here.`,
  )
}

function describe(error: unknown): { code: AppError['code']; message: string } {
  if (error instanceof AppError) return { code: error.code, message: error.message }
  const code = String((error as { code?: unknown } | null)?.code ?? '')
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return { code: 'no_space', message: 'The disk is full: the image cannot be unpacked.' }
  }
  if (/^(?:Z_|ERR_|ZSTD_)/.test(code)) {
    return { code: 'unprocessable', message: 'A layer cannot be unpacked: its compressed data is damaged.' }
  }
  return { code: 'unprocessable', message: `A layer cannot be unpacked: ${errorText(error).slice(0, 300)}` }
}
