/** Runs in the thread of `pack-thread.ts`. Nobody else waits for this thread, so it does one step after the other. */
import { parentPort, workerData } from 'node:worker_threads'
import { errorText, isAppError } from '../lib/app-error.ts'
import { hearMessages } from '../lib/ending-worker.ts'
import { writeAll } from '../lib/write-all.ts'
import { unpackPartNow } from './pack-format.ts'
import type { PackReply, PackRequest } from './pack-thread.ts'
import { cutOut } from './part-writer.ts'
import { S3ObjectStore, type S3Options } from './s3-object-store.ts'

const store = new S3ObjectStore(workerData as S3Options)
const underWay = new Map<number, AbortController>()

hearMessages((request: PackRequest) => {
  if ('isAborted' in request) underWay.get(request.number)?.abort(new Error('aborted'))
  else void answer(request)
})

async function answer(request: Exclude<PackRequest, { isAborted: true }>): Promise<void> {
  const { number } = request
  const abort = new AbortController()
  underWay.set(number, abort)
  let failure: PackReply['failure']
  try {
    await bring(request, abort.signal)
  } catch (error) {
    failure = failureOf(error)
  }
  underWay.delete(number)
  parentPort!.postMessage({ number, failure } satisfies PackReply)
}

async function bring(
  { key, range, fd }: Exclude<PackRequest, { isAborted: true }>,
  signal: AbortSignal,
): Promise<void> {
  const packed = await store.read(key, range.start, range.length, signal)
  for (const part of range.parts) writeAll(fd, unpackPartNow(cutOut(packed, range, part), part), part.at)
}

function failureOf(error: unknown): PackReply['failure'] {
  if (!isAppError(error)) return { message: errorText(error) }
  const { code, message, retry, cause } = error
  return { code, message, ...(retry && { retry }), ...(cause !== undefined && { cause: errorText(cause) }) }
}
