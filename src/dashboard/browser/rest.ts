/** Requests to Warren's REST API, with the credential of who is logged in. */
import type { ErrorBody } from '../../contract/rest/shared.ts'
import { credentialHeaders } from './session.ts'

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
  /** In place of the credential of who is logged in. */
  headers?: Record<string, string>
  /** Sent as it is. */
  raw?: Blob | string
  /** Warren does it once, however often it is sent; so it is sent again when the connection breaks. */
  once?: boolean
  signal?: AbortSignal | undefined
}

export async function send(path: string, options: AskOptions = {}): Promise<Response> {
  const { body, team, headers, raw, once, signal } = options
  const hasBody = body !== undefined || raw !== undefined
  const method = options.method ?? (hasBody ? 'POST' : 'GET')
  const request: RequestInit = {
    method,
    headers: {
      ...(headers ?? credentialHeaders(team)),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(once && { 'idempotency-key': newKey() }),
    },
    ...(hasBody && { body: raw ?? JSON.stringify(body) }),
    ...(signal && { signal }),
    credentials: 'omit',
  }
  let response: Response
  try {
    response = await fetch(path, request).catch((error) => {
      // Chromium breaks off what is under way when a network comes or goes, as with each sandbox of its own machine.
      if (signal?.aborted || !(once || method === 'GET')) throw error
      return fetch(path, request)
    })
  } catch (error) {
    if (signal?.aborted) throw error
    throw new RestFailure(0, 'Warren does not answer. Is it running, and is this machine connected?')
  }
  if (!response.ok) throw new RestFailure(response.status, await messageOf(response))
  return response
}

const newKey = (): string =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')

export async function ask<T>(path: string, options?: AskOptions): Promise<T> {
  const response = await send(path, options)
  const text = await response.text()
  return (text === '' ? undefined : JSON.parse(text)) as T
}

/** All pages of a list, one after another; `onPage` sees what there is so far. */
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
