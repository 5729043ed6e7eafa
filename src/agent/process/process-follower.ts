import type { AnswerStream } from '../rpc/answer-stream.ts'
import { deadlineExceeded, type RpcCall } from '../rpc/rpc-call.ts'
import { type EventReader, keepaliveEvent, type ProcessEventInit, startEvent } from './events.ts'
import type { RunningProcess } from './running-process.ts'

export type EventAnswer = AnswerStream<{ event: ProcessEventInit }>

/**
 * Sends the events of a process to one caller, from the start event to the end of the process or of the call.
 */
export class ProcessFollower implements EventReader {
  readonly #process: RunningProcess
  readonly #answer: EventAnswer
  readonly #silenceMs: number
  #keepalive: NodeJS.Timeout | undefined

  constructor(process: RunningProcess, answer: EventAnswer, silenceMs: number) {
    this.#process = process
    this.#answer = answer
    this.#silenceMs = silenceMs
    answer.send({ event: startEvent(process.pid) })
    answer.onDrain = () => process.adjustFlow()
    process.subscribe(this)
    if (process.isReported) this.flush()
  }

  /**
   * Ends with the call, because its caller has disconnected or its timeout is over; the process keeps
   * running.
   */
  followWithin(call: RpcCall): void {
    call.onOver(() => {
      if (!call.isOutOfTime) this.leave()
      // The end of an exited process is reported, even if others hold its output open.
      else if (!this.#process.endNow()) this.end(deadlineExceeded())
    })
  }

  get isFull(): boolean {
    return this.#answer.isFull
  }

  push(event: ProcessEventInit): void {
    this.#answer.send({ event })
    this.#keepalive?.refresh()
    if (event.event?.case === 'end') this.end()
  }

  /** Called when the caller waits for events. */
  flush(): void {
    this.#answer.flush()
    this.#keepalive ??= setTimeout(() => this.#showLife(), this.#silenceMs)
  }

  end(error?: unknown): void {
    this.leave()
    this.#answer.end(error)
  }

  leave(): void {
    clearTimeout(this.#keepalive)
    this.#keepalive = undefined
    this.#process.unsubscribe(this)
  }

  #showLife(): void {
    if (!this.isFull) this.push(keepaliveEvent)
    this.flush()
    this.#keepalive?.refresh()
  }
}
