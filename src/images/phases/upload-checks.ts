/**
 * The main thread's side of checking uploads. A worker thread reads each file as it grows. The main thread
 * waits for it only at the end: it keeps reading the socket, which tells it that a client has disconnected.
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

  /** The file at `path` must exist. The check must be closed in any case. */
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

class OpenCheck {
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
    // The caller of `finish` awaits it, perhaps only after it has failed.
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

  /** Reports that `size` bytes of the file can be read now. Throws once a limit is exceeded. */
  grown(size: number): void {
    if (this.#failure) throw this.#failure
    this.#send({ type: 'grown', id: this.#id, size })
  }

  /** Call it when the file is complete. Rejects if the file is not acceptable. */
  async finish(): Promise<void> {
    if (!this.#failure) this.#send({ type: 'end', id: this.#id })
    await this.#answer.promise
  }

  /** Makes the worker stop unpacking, and rejects for whoever waits here. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#send({ type: 'close', id: this.#id })
    this.fail(new AppError('unavailable', 'The upload broke off: send it again'))
    this.#onClosed()
  }
}
