/** Reports the outcome of a request to a sandbox when it is over. */
import { envdPort } from '../contract/constants.ts'
import { monotonicMs } from '../lib/clock.ts'
import type { HttpExchange } from '../lib/http-relay/http-relay.ts'
import { requestIDOf } from '../lib/request-id.ts'
import type { Destination } from './host.ts'

export type FinishedRequest = {
  requestID: string
  method: string
  /** Null if the request names no sandbox. */
  sandboxID: string | null
  port: number | null
  /** Whether the request was for a sandbox's agent, for a service in it, or for an unknown destination. */
  target: 'agent' | 'service' | 'none'
  /** 101: the request became a tunnel. 499: the client disconnected before there was an answer. */
  status: number
  /** Time until the head of the answer, in milliseconds. */
  answeredMs: number
  /** Time until the end of the request, in milliseconds. */
  totalMs: number
}

export type OnFinished = (finished: FinishedRequest) => void

export type EdgeExchange = HttpExchange & { watch: RequestWatch | null }

const clientWentAway = 499

export class RequestWatch {
  readonly #startedAt = monotonicMs()
  #answeredMs: number | undefined

  constructor(exchange: HttpExchange, destination: Destination, onFinished: OnFinished) {
    const { response, upgrade } = exchange
    const connection = upgrade ?? response
    connection.once('close', () => onFinished(this.#finished(exchange, destination)))
  }

  /** Called when the sandbox has answered. */
  answered(): void {
    this.#answeredMs ??= monotonicMs() - this.#startedAt
  }

  #finished({ request, response, upgrade }: HttpExchange, destination: Destination): FinishedRequest {
    const totalMs = monotonicMs() - this.#startedAt
    const { sandboxID, port } = destination.kind === 'sandbox' ? destination : nobody
    const isTunnel = upgrade !== null && this.#answeredMs !== undefined && !response.headersSent
    const status = response.headersSent ? response.statusCode : clientWentAway
    return {
      requestID: requestIDOf(request),
      method: request.method ?? '',
      sandboxID,
      port,
      target: port === null ? 'none' : port === envdPort ? 'agent' : 'service',
      status: isTunnel ? 101 : status,
      answeredMs: this.#answeredMs ?? totalMs,
      totalMs,
    }
  }
}

const nobody = { sandboxID: null, port: null }
