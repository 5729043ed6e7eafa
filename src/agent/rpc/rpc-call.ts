/** One call as its method sees it: who asks, how long it may take, and whether anybody still waits for the answer. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { AppError } from '../../lib/app-error.ts'
import { monotonicMs } from '../../lib/clock.ts'
import { RpcError } from './rpc-error.ts'

/** A longer time limit is none: a Node timer cannot hold it and would fire at once. */
const longestTimeoutMs = 2 ** 31 - 1
const defaultKeepaliveSeconds = 90
const longestKeepaliveSeconds = 86_400

export class RpcCall {
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  /** On the clock of `monotonicMs`. */
  readonly #endsAt: number | undefined
  #isOutOfTime = false
  #timer: NodeJS.Timeout | undefined
  #controller: AbortController | undefined

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.#request = request
    this.#response = response
    const timeoutMs = parseTimeout(request.headers['connect-timeout-ms'])
    if (timeoutMs !== undefined) this.#endsAt = monotonicMs() + timeoutMs
  }

  get headers(): IncomingHttpHeaders {
    return this.#request.headers
  }

  /** What is left of the time that the caller gives; undefined when it gave no limit. */
  remainingMs(): number | undefined {
    return this.#endsAt === undefined ? undefined : Math.max(0, this.#endsAt - monotonicMs())
  }

  get isOutOfTime(): boolean {
    return this.#isOutOfTime
  }

  /** After so long without another event a stream shows that it lives. */
  get keepaliveMs(): number {
    const asked = Number(this.headers['keepalive-ping-interval'])
    const isUsable = Number.isInteger(asked) && asked > 0 && asked < longestKeepaliveSeconds
    return (isUsable ? asked : defaultKeepaliveSeconds) * 1000
  }

  /** Aborts when the caller has gone or the time is over. Made when it is asked for: most calls end before. */
  get signal(): AbortSignal {
    if (this.#controller) return this.#controller.signal
    const controller = new AbortController()
    this.#controller = controller
    this.onOver(() => controller.abort(this.#isOutOfTime ? deadlineExceeded() : callerHasGone))
    return controller.signal
  }

  /** Calls `listener` when the caller has gone or the time is over, also if that was before. */
  onOver(listener: () => void): void {
    this.onGone(() => {
      this.close()
      listener()
    })
    const remainingMs = this.remainingMs()
    if (remainingMs === undefined || this.#response.destroyed) return
    this.#timer = setTimeout(() => {
      this.#isOutOfTime = true
      listener()
    }, remainingMs)
  }

  /** Calls `listener` when the caller has its answer, or has gone without it. */
  onGone(listener: () => void): void {
    if (this.#response.destroyed) listener()
    else this.#response.once('close', listener)
  }

  /** The method has returned: its time does not matter any more. */
  close(): void {
    clearTimeout(this.#timer)
  }
}

const callerHasGone = new AppError('unavailable', 'the caller has gone')

export function deadlineExceeded(): AppError {
  return new AppError('deadline_exceeded', 'the time allowed for this call is over')
}

function parseTimeout(value: string | string[] | undefined): number | undefined {
  if (value === undefined) return undefined
  if (!/^\d{1,10}$/.test(String(value))) {
    throw new RpcError('invalid_argument', `protocol error: invalid connect timeout value: ${value}`)
  }
  const timeoutMs = Number(value)
  return timeoutMs > longestTimeoutMs ? undefined : timeoutMs
}
