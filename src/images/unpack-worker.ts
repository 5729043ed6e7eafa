/**
 * A worker thread that verifies, unpacks and writes a layer. It reports every failure in a message and never
 * throws.
 */
import { Readable } from 'node:stream'
import { parentPort } from 'node:worker_threads'
import { AppError, errorText } from '../lib/app-error.ts'
import { hearMessages } from '../lib/ending-worker.ts'
import { TarReader } from '../lib/tar/tar-reader.ts'
import { decompress, isDamagedData } from './decompress.ts'
import { hasherFor, wrongDigest } from './digest.ts'
import { openFileSystemCalls } from './file-system-calls.ts'
import { type LayerFacts, LayerWriter } from './layer-writer.ts'
import type { FromWorker, ToWorker, UnpackJob } from './unpack-protocol.ts'

const send = (message: FromWorker): void => parentPort!.postMessage(message)

let input: Readable | undefined

hearMessages((message: ToWorker) => {
  if (message.type === 'unpack') {
    input = new Readable({ read() {} })
    answer(unpack(message.job, input))
  } else if (message.type === 'chunk') input?.push(message.bytes)
  else input?.push(null)
})

function answer(work: Promise<LayerFacts>): void {
  work.then(
    (facts) => send({ type: 'done', facts }),
    (error) => send({ type: 'failed', ...describe(error), cause: String((error as Error)?.stack ?? error) }),
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
    await decompress(
      verified(source, job.digest, () => ({ unpackedBytes, entries: writer.facts.entries })),
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

/** Passes the chunks on as they come, and throws after the last one if they do not match the digest. */
async function* verified(
  source: Readable,
  digest: string,
  progress: () => { unpackedBytes: number; entries: number },
): AsyncGenerator<Buffer> {
  const hasher = hasherFor(digest)
  for await (const chunk of source as AsyncIterable<Buffer>) {
    hasher.update(chunk)
    yield chunk
    send({ type: 'consumed', bytes: chunk.length, ...progress() })
  }
  if (`${digest.split(':')[0]}:${hasher.digest('hex')}` !== digest) throw wrongDigest('A layer', digest)
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
  if (isDamagedData(error)) {
    return { code: 'unprocessable', message: 'A layer cannot be unpacked: its compressed data is damaged.' }
  }
  return { code: 'unprocessable', message: `A layer cannot be unpacked: ${errorText(error).slice(0, 300)}` }
}
