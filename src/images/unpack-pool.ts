/** A few worker threads that unpack layers, kept for a while: writing many small files blocks a thread. */
import { Worker } from 'node:worker_threads'
import { AppError } from '../lib/app-error.ts'
import { endWorker } from '../lib/ending-worker.ts'
import { atUsualPriority } from '../lib/priority.ts'
import { siblingModule } from '../lib/sibling-module.ts'
import type { LayerFacts } from './layer-writer.ts'
import type { FromWorker, ToWorker, UnpackJob } from './unpack-protocol.ts'

/** Maximum number of bytes on their way to a worker; enough to keep it busy. */
const windowBytes = 4 << 20
const idleForMs = 20_000

export type UnpackProgress = { sentBytes: number; unpackedBytes: number; entries: number }

export class UnpackPool {
  readonly #size: number
  #busy = 0
  #idle: { worker: Worker; timer: NodeJS.Timeout }[] = []
  #waiting: (() => void)[] = []
  #closed = false

  constructor(size: number) {
    this.#size = size
  }

  /** `open` is called when it is this layer's turn; its stream must end when `signal` aborts. */
  async unpack(
    job: UnpackJob,
    open: () => AsyncIterable<Uint8Array>,
    onProgress: (progress: UnpackProgress) => void,
    signal: AbortSignal,
  ): Promise<LayerFacts> {
    return this.#withWorker(signal, async (worker) => {
      const conversation = new Conversation(worker, onProgress, signal)
      conversation.say({ type: 'unpack', job })
      const sending = conversation.send(open())
      return Promise.race([conversation.answer, sending.then(() => conversation.answer)])
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    const idle = this.#idle.splice(0)
    for (const { timer } of idle) clearTimeout(timer)
    await Promise.all(idle.map(({ worker }) => endWorker(worker)))
  }

  async #withWorker<T>(signal: AbortSignal, work: (worker: Worker) => Promise<T>): Promise<T> {
    await this.#turn(signal)
    let worker: Worker | undefined
    try {
      // Checked after the turn has come, because the turn must be passed on in any case.
      signal.throwIfAborted()
      worker = this.#takeIdle() ?? startWorker()
      const result = await work(worker)
      this.#recycle(worker)
      return result
    } catch (error) {
      // The worker may still be writing this layer, and must not continue with the next one.
      if (worker) await endWorker(worker)
      throw error
    } finally {
      this.#busy--
      this.#waiting.shift()?.()
    }
  }

  async #turn(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    while (this.#busy >= this.#size) {
      await new Promise<void>((resolve, reject) => {
        const go = () => {
          signal.removeEventListener('abort', stop)
          resolve()
        }
        const stop = () => {
          this.#waiting = this.#waiting.filter((other) => other !== go)
          reject(signal.reason)
        }
        this.#waiting.push(go)
        signal.addEventListener('abort', stop, { once: true })
      })
    }
    this.#busy++
  }

  #takeIdle(): Worker | undefined {
    const idle = this.#idle.pop()
    clearTimeout(idle?.timer)
    idle?.worker.ref()
    return idle?.worker
  }

  #recycle(worker: Worker): void {
    if (this.#closed) {
      void endWorker(worker)
      return
    }
    worker.unref()
    const timer = setTimeout(() => {
      this.#idle = this.#idle.filter((idle) => idle.worker !== worker)
      void endWorker(worker)
    }, idleForMs)
    timer.unref()
    this.#idle.push({ worker, timer })
  }
}

function startWorker(): Worker {
  // Enough for the largest tree of folders: a worker that runs out of memory may crash the process.
  const options = { resourceLimits: { maxOldGenerationSizeMb: 768 } }
  const worker = atUsualPriority(() => new Worker(siblingModule('unpack-worker', import.meta.url), options))
  worker.on('error', () => {})
  return worker
}

/** One job of one worker. */
class Conversation {
  readonly answer: Promise<LayerFacts>
  readonly #worker: Worker
  readonly #signal: AbortSignal
  #sentBytes = 0
  #consumedBytes = 0
  #wake: (() => void) | undefined
  #over = false

  constructor(worker: Worker, onProgress: (progress: UnpackProgress) => void, signal: AbortSignal) {
    this.#worker = worker
    this.#signal = signal
    this.answer = new Promise((resolve, reject) => {
      const end = (finish: () => void) => {
        this.#over = true
        worker.off('message', hear).off('error', broke).off('exit', gone)
        signal.removeEventListener('abort', stop)
        this.#wake?.()
        finish()
      }
      const hear = (message: FromWorker) => {
        if (message.type === 'consumed') {
          this.#consumedBytes += message.bytes
          this.#wake?.()
          const { unpackedBytes, entries } = message
          onProgress({ sentBytes: this.#consumedBytes, unpackedBytes, entries })
        } else if (message.type === 'done') end(() => resolve(message.facts))
        else end(() => reject(new AppError(message.code, message.message, { cause: message.cause })))
      }
      const broke = (error: unknown) => end(() => reject(stopped(error)))
      const gone = () => end(() => reject(stopped('it exited')))
      const stop = () => end(() => reject(signal.reason))
      worker.on('message', hear).on('error', broke).on('exit', gone)
      signal.addEventListener('abort', stop, { once: true })
    })
    // The sender and the caller both await it, perhaps only after it has failed.
    this.answer.catch(() => {})
  }

  say(message: ToWorker): void {
    this.#worker.postMessage(message)
  }

  async send(chunks: AsyncIterable<Uint8Array>): Promise<void> {
    for await (const chunk of chunks) {
      // A copy: the chunk may be part of a larger buffer, which would be transferred away from its owner.
      const bytes = new Uint8Array(chunk)
      this.#worker.postMessage({ type: 'chunk', bytes } satisfies ToWorker, [bytes.buffer])
      this.#sentBytes += bytes.length
      while (!this.#over && this.#sentBytes - this.#consumedBytes > windowBytes) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
      if (this.#over) return
      this.#signal.throwIfAborted()
    }
    this.say({ type: 'end' })
  }
}

function stopped(cause: unknown): AppError {
  return new AppError('internal', 'Unpacking a layer stopped unexpectedly. Try again.', { cause })
}
