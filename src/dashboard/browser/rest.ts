/** Requests to Warren's REST API, with the credential of the session. */
import type { ErrorBody } from '../../contract/rest/shared.ts'
import { credentialHeaders, isPerson } from './session.ts'
import { Shared } from './store.ts'
import { tryAgain } from './try-again.ts'

export class RestFailure extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export type AskOptions = {
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  body?: unknown
  /** The team that an operator asks for. */
  team?: string | undefined
  /** A key to use in place of the session's credential. */
  headers?: Record<string, string>
  /** Sends the cookie of a person's session also before the page knows of it. */
  asPerson?: boolean
  /** Sent as it is. */
  raw?: Blob | string
  /** Adds an idempotency key, so that Warren carries the request out once, however often it is sent. */
  once?: boolean
  /** Sending it twice does the same as sending it once. Left out: true of all methods but POST. */
  repeatable?: boolean
  signal?: AbortSignal | undefined
}

/** Changes when a request broke off that may have changed something, so that views read their data again. */
export const brokenOff = new Shared(0)

const unreachable = 'Warren does not answer. Is it running, and is this machine connected?'
const maybeDone =
  'The connection broke before Warren answered, so this may be done or not. ' +
  'The page has read again what is there: look at it before you repeat this.'

/** Resolves when the whole answer is there. What is repeatable is sent again if the connection breaks. */
export async function send(path: string, options: AskOptions = {}): Promise<Response> {
  const { once = false, signal } = options
  const request = requestOf(options)
  const { method } = request
  const { repeatable = once || method !== 'POST' } = options
  let attempts = 0
  const attempt = () => {
    attempts++
    return fetchWhole(path, request)
  }
  let response: Response
  try {
    response = await (repeatable ? tryAgain(attempt, signal) : attempt())
  } catch (error) {
    if (signal?.aborted) throw error
    throw new RestFailure(0, repeatable ? unreachable : await whatBroke())
  }
  // The attempt that broke off has deleted it.
  if (method === 'DELETE' && response.status === 404 && attempts > 1) return new Response()
  if (!response.ok) throw new RestFailure(response.status, await messageOf(response))
  return response
}

function requestOf({ body, team, headers, raw, once, signal, asPerson, ...options }: AskOptions) {
  const sendsCookie = asPerson || (isPerson() && headers === undefined)
  const hasBody = body !== undefined || raw !== undefined
  return {
    method: options.method ?? (hasBody ? 'POST' : 'GET'),
    headers: {
      ...(headers ?? credentialHeaders(team)),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(once && { 'idempotency-key': newKey() }),
    },
    ...(hasBody && { body: raw ?? JSON.stringify(body) }),
    ...(signal && { signal }),
    credentials: sendsCookie ? 'same-origin' : 'omit',
  } satisfies RequestInit
}

/** A connection may break in the middle of an answer, too. */
async function fetchWhole(path: string, request: RequestInit): Promise<Response> {
  const response = await fetch(path, request)
  const body = await response.blob()
  const { status, statusText, headers } = response
  return new Response(body.size > 0 ? body : null, { status, statusText, headers })
}

async function whatBroke(): Promise<string> {
  const isThere = await tryAgain(() => fetch('/health')).then(
    () => true,
    () => false,
  )
  if (!isThere) return unreachable
  brokenOff.set(brokenOff.get() + 1)
  return maybeDone
}

const newKey = (): string =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')

export async function ask<T>(path: string, options?: AskOptions): Promise<T> {
  const response = await send(path, options)
  const text = await response.text()
  return (text === '' ? undefined : JSON.parse(text)) as T
}

/** Reads all pages of a list, one after another; `onPage` gets the entries so far. */
export async function askAll<T>(
  path: string,
  options: AskOptions & { onPage?: (soFar: T[]) => void } = {},
): Promise<T[]> {
  const all: T[] = []
  let token: string | null = null
  do {
    const next = new URLSearchParams({ limit: '100', ...(token !== null && { nextToken: token }) })
    const response = await send(`${path}${path.includes('?') ? '&' : '?'}${next}`, options)
    all.push(...((await response.json()) as T[]))
    token = response.headers.get('x-next-token')
    if (token !== null) options.onPage?.(all)
  } while (token !== null)
  return all
}

async function messageOf(response: Response): Promise<string> {
  const text = await response.text().catch(() => '')
  try {
    const { message } = JSON.parse(text) as ErrorBody
    if (typeof message === 'string' && message !== '') return message
  } catch {
    // Something in between answered, and not in our words.
  }
  return `Warren answered ${response.status} ${response.statusText}`
}

export const messageFor = (error: unknown): string => (error instanceof Error ? error.message : String(error))
