/**
 * A thread that starts programs for the thread of the event loop. Node waits until a program is loaded before it goes on.
 * On a machine with busy CPUs that takes tens of milliseconds each time, and all requests would wait.
 */
import { Worker } from 'node:worker_threads'
import { endWorker } from './ending-worker.ts'
import { siblingModule } from './sibling-module.ts'
import type { ProgramEnd, ProgramRequest } from './spawn-program.ts'

/** The requests to the thread. `abort` names the earlier request that it cancels. */
export type ProgramQuestion = { run: ProgramRequest } | { abort: number }
export type ToProgramThread = { number: number; question: ProgramQuestion }
export type FromProgramThread = { number: number; answer: unknown; failure?: string }

type Waiting = { resolve: (answer: unknown) => void; reject: (error: Error) => void }

export class ProgramThread {
  readonly #worker: Worker
  readonly #waiting = new Map<number, Waiting>()
  #next = 0
  #hasEnded = false

  constructor() {
    this.#worker = new Worker(siblingModule('program-worker', import.meta.url), { trackUnmanagedFds: false })
    this.#worker.unref()
    this.#worker.on('message', (message: FromProgramThread) => this.#settle(message))
    this.#worker.on('error', ({ message }: Error) => this.#fail(message))
    this.#worker.on('exit', () => this.#fail('it ended'))
  }

  /** False if the thread can start no more programs. */
  get isUsable(): boolean {
    return !this.#hasEnded
  }

  async run(request: ProgramRequest, signal?: AbortSignal): Promise<ProgramEnd> {
    const { number, answer } = this.#ask<ProgramEnd>({ run: request })
    const abort = () => void this.#ask({ abort: number }).answer.catch(() => {})
    if (signal?.aborted) abort()
    signal?.addEventListener('abort', abort, { once: true })
    try {
      return await answer
    } finally {
      signal?.removeEventListener('abort', abort)
    }
  }

  async close(): Promise<void> {
    await endWorker(this.#worker)
  }

  #ask<T>(question: ProgramQuestion): { number: number; answer: Promise<T> } {
    const number = this.#next++
    const answer = new Promise<T>((resolve, reject) => {
      this.#waiting.set(number, { resolve: resolve as Waiting['resolve'], reject })
    })
    // A pending program keeps this process alive; an idle thread does not.
    this.#worker.ref()
    this.#worker.postMessage({ number, question } satisfies ToProgramThread)
    if (this.#hasEnded) this.#fail('it ended')
    return { number, answer }
  }

  #settle({ number, answer, failure }: FromProgramThread): void {
    const waiting = this.#waiting.get(number)
    this.#waiting.delete(number)
    if (failure === undefined) waiting?.resolve(answer)
    else waiting?.reject(new Error(failure))
    if (this.#waiting.size === 0) this.#worker.unref()
  }

  #fail(why: string): void {
    this.#hasEnded = true
    const failure = `The thread that starts programs failed: ${why}`
    for (const number of [...this.#waiting.keys()]) this.#settle({ number, answer: undefined, failure })
  }
}
