/**
 * The requests that the tools make to a Warren: its public REST API and the agents' protocol. A sandbox may
 * answer anything, without end, so every answer is read up to a limit.
 */
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import { envdPort, header } from '../contract/constants.ts'
import { sandboxOrigin } from '../contract/sandbox-origin.ts'
import { AppError, type ErrorCode, errorText } from '../lib/app-error.ts'
import { requestServer, type ServerAddress } from '../lib/server-request.ts'
import { type BufferedAnswers, unlimited } from './answer-budget.ts'

export type WarrenAccess = ServerAddress & { apiKey: string }

/** A port of a sandbox, and the token that its agent requires. */
export type SandboxPort = { sandboxID: string; port: number; accessToken?: string }

type Ask = {
  method: string
  path: string
  headers?: OutgoingHttpHeaders
  body?: string | Buffer
  /** Silence after which the request fails. */
  withinMs?: number
  signal?: AbortSignal
}

const answersWithinMs = 60_000
const largestAnswer = 8 * 1024 * 1024
const largestError = 4096

export class WarrenClient {
  readonly #access: WarrenAccess
  /** Everything that is read of answers and kept is counted here. */
  readonly buffered: BufferedAnswers

  constructor(access: WarrenAccess, buffered: BufferedAnswers = unlimited) {
    this.#access = access
    this.buffered = buffered
  }

  async rest<T>(method: string, path: string, json?: unknown, signal?: AbortSignal): Promise<T> {
    const response = await this.#send('', {
      method,
      path,
      ...(signal && { signal }),
      headers: { [header.apiKey]: this.#access.apiKey, ...(json !== undefined && jsonType) },
      ...(json !== undefined && { body: JSON.stringify(json) }),
    })
    const text = (await this.read(response, largestAnswer)).toString()
    return (text === '' ? undefined : JSON.parse(text)) as T
  }

  /** The port of a sandbox's agent, with the token that it requires. */
  async agentOf(sandboxID: string, signal?: AbortSignal): Promise<SandboxPort> {
    const path = `/sandboxes/${encodeURIComponent(sandboxID)}`
    const { envdAccessToken } = await this.rest<{ envdAccessToken?: string }>('GET', path, undefined, signal)
    return { sandboxID, port: envdPort, ...(envdAccessToken && { accessToken: envdAccessToken }) }
  }

  /** Resolves with the head of a successful answer; the reader of the body must limit it. */
  reach({ sandboxID, port, accessToken }: SandboxPort, ask: Ask): Promise<IncomingMessage> {
    const headers = {
      ...ask.headers,
      ...(accessToken !== undefined && { [header.accessToken]: accessToken }),
      [header.sandboxID]: sandboxID,
      [header.sandboxPort]: String(port),
    }
    return this.#send(sandboxOrigin(this.#access.url, sandboxID, port), { ...ask, headers })
  }

  /** Makes a unary call to the agent. */
  async call<T>(to: SandboxPort, method: string, message: unknown, signal?: AbortSignal): Promise<T> {
    const ask = { method: 'POST', path: `/${method}`, body: JSON.stringify(message) }
    const headers = { ...jsonType, 'connect-protocol-version': '1' }
    const response = await this.reach(to, { ...ask, headers, ...(signal && { signal }) })
    return JSON.parse((await this.read(response, largestAnswer)).toString()) as T
  }

  /** Rejects if the answer is longer, unless its beginning is enough. */
  async read(response: IncomingMessage, limit: number, beginningIsEnough = false): Promise<Buffer> {
    const chunks: Buffer[] = []
    let length = 0
    for await (const chunk of response) {
      this.buffered.add((chunk as Buffer).length)
      chunks.push(chunk as Buffer)
      length += (chunk as Buffer).length
      if (length <= limit) continue
      response.destroy()
      if (beginningIsEnough) return Buffer.concat(chunks).subarray(0, limit)
      throw new AppError('payload_too_large', `The answer is longer than ${limit} bytes.`)
    }
    return Buffer.concat(chunks)
  }

  #send(base: string, { method, path, headers, body, withinMs = answersWithinMs, signal }: Ask) {
    return new Promise<IncomingMessage>((resolve, reject) => {
      const fail = (error: unknown) => {
        const why = `Warren does not answer at ${this.#access.url} (${errorText(error)}).`
        reject(new AppError('unavailable', why, { cause: error }))
      }
      const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }
      const request = requestServer(this.#access, `${base}${path}`, {
        method,
        withinMs,
        headers: { ...headers, ...length },
        ...(signal && { signal }),
      })
      request.on('error', fail)
      request.on('response', (response) => {
        const status = response.statusCode ?? 0
        if (status >= 200 && status < 300) resolve(response)
        else this.#rejectionIn(response, status).then(reject, fail)
      })
      request.end(body)
    })
  }

  async #rejectionIn(response: IncomingMessage, status: number): Promise<AppError> {
    const text = (await this.read(response, largestError, true)).toString().trim()
    return new AppError(codeOf(status), messageIn(text) || `The answer is ${status}.`)
  }
}

const jsonType = { 'content-type': 'application/json' }

function messageIn(text: string): string {
  try {
    const { message } = JSON.parse(text) as { message?: unknown }
    return typeof message === 'string' ? message : text
  } catch {
    return text
  }
}

function codeOf(status: number): ErrorCode {
  if (status === 401 || status === 403) return 'permission_denied'
  if (status === 404 || status === 502) return 'not_found'
  if (status === 409) return 'conflict'
  if (status === 429) return 'limit_reached'
  return status < 500 ? 'invalid_argument' : 'unavailable'
}
