/** Makes one request to a running server. A rejection becomes an error with the server's message. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AppError, type ErrorCode, errorText } from '../lib/app-error.ts'
import { requestServer, type ServerAddress } from '../lib/server-request.ts'

export type Call = {
  method: string
  /** A path on the server, or an upload link from the server. */
  target: string
  headers?: Record<string, string>
  body?: { json: unknown } | { stream: Readable; size: number }
  /** How long the server may be silent; 30 seconds by default. */
  withinMs?: number
  /** Called with the headers of a successful answer. */
  onHeaders?: (headers: IncomingHttpHeaders) => void
}

export async function callServer<T>(address: ServerAddress, call: Call): Promise<T> {
  const { status, text, headers } = await send(address, call)
  const answer = parseJson(text)
  if (status >= 200 && status < 300) {
    call.onHeaders?.(headers)
    return answer as T
  }
  throw rejection(status, text, `The server answered ${status} to ${call.method} ${call.target}.`)
}

/** A sandbox decides how long its agent's answers are, so of a rejection only the beginning is read. */
const longestRejection = 4096

/** The error that an answer without success stands for. */
export async function rejectionOf(response: IncomingMessage): Promise<AppError> {
  let text = ''
  for await (const chunk of response) {
    text += chunk
    if (text.length > longestRejection) break
  }
  const status = response.statusCode ?? 0
  return rejection(status, text.slice(0, longestRejection), `The sandbox answered ${status}.`)
}

function rejection(status: number, text: string, otherwise: string): AppError {
  const said = (parseJson(text) as { message?: string } | undefined)?.message ?? text.trim()
  // The words of the schema are about fields, which have the names of the options.
  const plain = said.replace(/^validation error: (?:body|querystring|params)\//, 'The server rejects this: ')
  return new AppError(codeOf(status), plain || otherwise)
}

type Answer = { status: number; text: string; headers: IncomingHttpHeaders }

function send(address: ServerAddress, call: Call): Promise<Answer> {
  const { url } = address
  const { method, body, withinMs = 30_000 } = call
  const json = body && 'json' in body ? JSON.stringify(body.json) : undefined
  const headers = {
    ...call.headers,
    ...(json !== undefined && {
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(json)),
    }),
    ...(body && 'stream' in body && { 'content-length': String(body.size) }),
  }
  return new Promise((resolve, reject) => {
    const fail = (error: unknown) => reject(unreachable(url, error))
    const request = requestServer(address, call.target, { method, headers, withinMs })
    request.on('response', (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text: Buffer.concat(chunks).toString(),
        }),
      )
      response.on('error', fail)
    })
    request.on('error', fail)
    if (body && 'stream' in body) pipeline(body.stream, request).catch(fail)
    else request.end(json)
  })
}

function unreachable(url: string, error: unknown): AppError {
  const message = `Warren does not answer at ${url} (${errorText(error)}). Start it with \`npm start\`.`
  return new AppError('unavailable', message, { cause: error })
}

function parseJson(text: string): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text)
  } catch {
    return undefined
  }
}

function codeOf(status: number): ErrorCode {
  if (status === 404) return 'not_found'
  if (status === 401 || status === 403) return 'permission_denied'
  if (status === 409) return 'already_exists'
  return status < 500 ? 'invalid_argument' : 'unavailable'
}
