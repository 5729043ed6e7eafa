/**
 * One call as its method sees it: its headers, its timeout, and whether the caller still waits for the
 * answer.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { AppError } from '../../lib/app-error.ts'
import { monotonicMs } from '../../lib/clock.ts'
import { RpcError } from './rpc-error.ts'

/** A longer timeout counts as none: a Node timer cannot hold it and would fire at once. */
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

  /** The rest of the caller's timeout; undefined without one. */
  remainingMs(): number | undefined {
    return this.#endsAt === undefined ? undefined : Math.max(0, this.#endsAt - monotonicMs())
  }

  get isOutOfTime(): boolean {
    return this.#isOutOfTime
  }

  /** A stream sends a keepalive after this time without another event. */
  get keepaliveMs(): number {
    const asked = Number(this.headers['keepalive-ping-interval'])
    const isUsable = Number.isInteger(asked) && asked > 0 && asked < longestKeepaliveSeconds
    return (isUsable ? asked : defaultKeepaliveSeconds) * 1000
  }

  /**
   * Aborts when the caller has disconnected or the timeout is over. Created on first use: most calls end
   * before.
   */
  get signal(): AbortSignal {
    if (this.#controller) return this.#controller.signal
    const controller = new AbortController()
    this.#controller = controller
    this.onOver(() => controller.abort(this.#isOutOfTime ? deadlineExceeded() : callerHasGone))
    return controller.signal
  }

  /** Calls `listener` when the caller has disconnected or the timeout is over, even if that was before. */
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

  /** Calls `listener` when the caller has its answer, or has disconnected without it. */
  onGone(listener: () => void): void {
    if (this.#response.destroyed) listener()
    else this.#response.once('close', listener)
  }

  /** Called when the method has returned: its timeout does not matter any more. */
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
