import type { MessageInitShape } from '@bufbuild/protobuf'
import type { ProcessEventSchema } from '../../contract/rpc/process_pb.ts'

export type ProcessEventInit = MessageInitShape<typeof ProcessEventSchema>

const mostQueuedEvents = 64
const mostQueuedBytes = 256 * 1024

/** One reader of a process's events. Its queue is bounded by the process pausing while any reader is full. */
export class Subscription {
  #queue: ProcessEventInit[] = []
  #queuedBytes = 0
  #wake: (() => void) | undefined
  #closed = false
  #onSpace: () => void

  constructor(onSpace: () => void) {
    this.#onSpace = onSpace
  }

  get full(): boolean {
    return this.#queue.length >= mostQueuedEvents || this.#queuedBytes >= mostQueuedBytes
  }

  push(event: ProcessEventInit): void {
    if (this.#closed) return
    this.#queue.push(event)
    this.#queuedBytes += sizeOf(event)
    this.#wake?.()
  }

  /** The next event; 'silence' when none came for so long; undefined once closed. */
  async next(silenceMs: number): Promise<ProcessEventInit | 'silence' | undefined> {
    if (this.#queue.length === 0 && !this.#closed) {
      const silent = await this.#wait(silenceMs)
      if (silent) return 'silence'
    }
    if (this.#closed) return undefined
    const wasFull = this.full
    const event = this.#queue.shift()!
    this.#queuedBytes -= sizeOf(event)
    if (wasFull) this.#onSpace()
    return event
  }

  #wait(silenceMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const finish = (silent: boolean) => {
        clearTimeout(timer)
        this.#wake = undefined
        resolve(silent)
      }
      const timer = setTimeout(() => finish(true), silenceMs)
      this.#wake = () => finish(false)
    })
  }

  /** What is still queued is dropped: nobody reads it any more. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#queue = []
    this.#queuedBytes = 0
    this.#wake?.()
  }
}

function sizeOf({ event }: ProcessEventInit): number {
  return event?.case === 'data' ? (event.value.output?.value?.length ?? 0) : 0
}
