/**
 * The thread that brings parts of packs from an S3 store to files. Every byte passes through several buffers, and V8
 * counts these towards full collections: in the thread of the server each would go through the server's whole heap,
 * and requests would wait for it. The heap of this thread is small.
 */
import { Worker } from 'node:worker_threads'
import type { ObjectKey } from '../core/ports/object-store.ts'
import { AppError, type ErrorCode } from '../lib/app-error.ts'
import { endWorker } from '../lib/ending-worker.ts'
import { atUsualPriority } from '../lib/priority.ts'
import { siblingModule } from '../lib/sibling-module.ts'
import type { PackRange, PartWriter } from './part-writer.ts'
import type { S3Options } from './s3-object-store.ts'

export type PackRequest =
  | { number: number; key: ObjectKey; range: PackRange; fd: number }
  | { number: number; isAborted: true }

export type PackReply = {
  number: number
  failure: { code?: ErrorCode; message: string; retry?: AppError['retry']; cause?: string } | undefined
}

export class PackThread implements PartWriter {
  readonly #options: S3Options
  readonly #waiting = new Map<number, PromiseWithResolvers<void>>()
  #worker: Worker | undefined
  #last = 0

  constructor(options: S3Options) {
    this.#options = options
  }

  /** For a process that will need the thread: otherwise the first request waits for all that the thread loads. */
  start(): void {
    this.#open().unref()
  }

  async write(key: ObjectKey, range: PackRange, fd: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const number = ++this.#last
    const waiting = Promise.withResolvers<void>()
    const worker = this.#open()
    const abort = () => worker.postMessage({ number, isAborted: true } satisfies PackRequest)
    signal.addEventListener('abort', abort, { once: true })
    this.#waiting.set(number, waiting)
    worker.ref()
    worker.postMessage({ number, key, range, fd } satisfies PackRequest)
    try {
      // Not before the thread says so, although the signal has aborted: the file may be closed then.
      await waiting.promise
    } catch (error) {
      signal.throwIfAborted()
      throw error
    } finally {
      signal.removeEventListener('abort', abort)
      this.#waiting.delete(number)
      if (this.#waiting.size === 0) worker.unref()
    }
  }

  async close(): Promise<void> {
    if (this.#worker) await endWorker(this.#worker)
  }

  #open(): Worker {
    if (this.#worker) return this.#worker
    // Bulk work must not come before sandboxes, as the thread of the server does.
    const worker = atUsualPriority(
      () => new Worker(siblingModule('pack-worker', import.meta.url), { workerData: this.#options }),
    )
    this.#worker = worker
    worker.on('message', ({ number, failure }: PackReply) => {
      const waiting = this.#waiting.get(number)
      if (failure) waiting?.reject(errorOf(failure))
      else waiting?.resolve()
    })
    const end = (cause?: unknown) => {
      if (this.#worker === worker) this.#worker = undefined
      const error = new AppError('unavailable', 'The thread that reads from the object store has ended.', {
        cause,
      })
      for (const waiting of this.#waiting.values()) waiting.reject(error)
    }
    worker.on('error', end)
    worker.on('exit', () => end())
    return worker
  }
}

function errorOf({ code, message, retry, cause }: NonNullable<PackReply['failure']>): Error {
  if (code === undefined) return new Error(message)
  return new AppError(code, message, {
    ...(retry && { retry }),
    ...(cause !== undefined && { cause: new Error(cause) }),
  })
}
