/**
 * A thread that starts programs for the thread of the event loop. Node waits until a program is loaded before it goes on:
 * on a machine whose CPUs are taken that is tens of milliseconds each time, and all requests would wait with it.
 */
import { Worker } from 'node:worker_threads'
import type { ProgramEnd, ProgramRequest } from './spawn-program.ts'

export type ToProgramThread = { number: number; request: ProgramRequest } | { number: number; abort: true }
export type FromProgramThread = { number: number; end: ProgramEnd }

export class ProgramThread {
  readonly #worker: Worker
  readonly #waiting = new Map<number, (end: ProgramEnd) => void>()
  #next = 0
  #hasEnded = false

  constructor() {
    this.#worker = new Worker(new URL('./program-worker.ts', import.meta.url), { trackUnmanagedFds: false })
    this.#worker.unref()
    this.#worker.on('message', ({ number, end }: FromProgramThread) => this.#settle(number, end))
    this.#worker.on('error', ({ message }: Error) => this.#fail(message))
    this.#worker.on('exit', () => this.#fail('it ended'))
  }

  /** False: it can start nothing any more. */
  get isUsable(): boolean {
    return !this.#hasEnded
  }

  run(request: ProgramRequest, signal?: AbortSignal): Promise<ProgramEnd> {
    const number = this.#next++
    return new Promise((resolve) => {
      const abort = () => this.#post({ number, abort: true })
      this.#waiting.set(number, (end) => {
        signal?.removeEventListener('abort', abort)
        resolve(end)
      })
      // A program keeps the process alive, and a thread that only waits does not.
      this.#worker.ref()
      this.#post({ number, request })
      if (signal?.aborted) abort()
      else signal?.addEventListener('abort', abort, { once: true })
    })
  }

  async close(): Promise<void> {
    await this.#worker.terminate()
  }

  #post(message: ToProgramThread): void {
    this.#worker.postMessage(message)
  }

  #settle(number: number, end: ProgramEnd): void {
    this.#waiting.get(number)?.(end)
    this.#waiting.delete(number)
    if (this.#waiting.size === 0) this.#worker.unref()
  }

  #fail(why: string): void {
    this.#hasEnded = true
    const stderr = `The thread that starts programs failed: ${why}`
    for (const number of [...this.#waiting.keys()])
      this.#settle(number, { exitCode: null, stdout: '', stderr })
  }
}
