/**
 * The main thread's side of checking uploads. A worker thread reads each file as it grows. The main thread does not wait
 * for it before all has come: it goes on reading the socket, which is how it learns that a client has left.
 */
import { Worker } from 'node:worker_threads'
import { AppError } from '../../lib/app-error.ts'
import { endWorker } from '../../lib/ending-worker.ts'
import { atUsualPriority } from '../../lib/priority.ts'
import { siblingModule } from '../../lib/sibling-module.ts'
import type { UploadBounds } from './upload-check.ts'
import type { FromChecker, ToChecker } from './upload-protocol.ts'

const idleForMs = 60_000

export class UploadChecks {
  readonly #open = new Map<number, OpenCheck>()
  #worker: Worker | undefined
  #idleTimer: NodeJS.Timeout | undefined
  #lastID = 0

  /** The file at `path` must be there. The check must be closed in any case. */
  open(teamID: string, path: string, bounds: UploadBounds): OpenCheck {
    clearTimeout(this.#idleTimer)
    this.#worker ??= this.#start()
    const worker = this.#worker
    const id = ++this.#lastID
    const send = (message: ToChecker) => worker.postMessage(message)
    const check = new OpenCheck(id, send, () => this.#forget(id))
    this.#open.set(id, check)
    worker.ref()
    send({ type: 'open', id, teamID, path, bounds })
    return check
  }

  #forget(id: number): void {
    this.#open.delete(id)
    if (this.#open.size > 0) return
    this.#worker?.unref()
    this.#idleTimer = setTimeout(() => void this.#end(), idleForMs).unref()
  }

  async #end(): Promise<void> {
    const worker = this.#worker
    this.#worker = undefined
    if (worker) await endWorker(worker)
  }

  #start(): Worker {
    const options = { resourceLimits: { maxOldGenerationSizeMb: 256 } }
    const worker = atUsualPriority(
      () => new Worker(siblingModule('upload-check-worker', import.meta.url), options),
    )
    worker.on('message', (message: FromChecker) => this.#open.get(message.id)?.hear(message))
    const stop = (cause: unknown) => {
      if (this.#worker !== worker) return
      this.#worker = undefined
      const failure = new AppError('internal', 'Checking the files of a COPY failed. Try again.', { cause })
      for (const check of [...this.#open.values()]) check.fail(failure)
    }
    worker.on('error', stop).on('exit', () => stop(new Error('the worker ended')))
    return worker
  }
}

type Send = (message: ToChecker) => void

export class OpenCheck {
  readonly #id: number
  readonly #send: Send
  readonly #onClosed: () => void
  readonly #answer: PromiseWithResolvers<void> = Promise.withResolvers()
  #failure: AppError | undefined
  #isClosed = false

  constructor(id: number, send: Send, onClosed: () => void) {
    this.#id = id
    this.#send = send
    this.#onClosed = onClosed
    // Whoever finishes awaits it, perhaps only after it has failed.
    this.#answer.promise.catch(() => {})
  }

  hear(message: FromChecker): void {
    if (message.type === 'done') this.#answer.resolve()
    else this.fail(new AppError(message.code, message.message))
  }

  fail(error: AppError): void {
    this.#failure ??= error
    this.#answer.reject(error)
  }

  /** So much of the file can be read now. Throws once a bound was passed. */
  grown(size: number): void {
    if (this.#failure) throw this.#failure
    this.#send({ type: 'grown', id: this.#id, size })
  }

  /** The file is whole. Rejects where it is not what it should be. */
  async finish(): Promise<void> {
    if (!this.#failure) this.#send({ type: 'end', id: this.#id })
    await this.#answer.promise
  }

  /** The worker stops unpacking, and whoever waits here is told. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#send({ type: 'close', id: this.#id })
    this.fail(new AppError('unavailable', 'The upload broke off: send it again'))
    this.#onClosed()
  }
}
