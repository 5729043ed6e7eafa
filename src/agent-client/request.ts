/**
 * One HTTP request to an agent, on its own connection: nothing is kept open to a sandbox that may end at any
 * time. Root inside a sandbox can replace the agent by any program, so every answer is hostile: its head, its
 * interim answers and the part of its body that is read are limited here.
 */
import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, type RequestOptions, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import type { Endpoint } from '../core/ports/driver.ts'
import { AppError } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import type { Pace } from '../lib/pace.ts'
import { PacedConnection } from './paced-connection.ts'

export type AgentRequestOptions = Pick<RequestOptions, 'method' | 'path' | 'headers'> & {
  signal: AbortSignal
  /** Limits for a long answer over time. A short one needs no pace, because little of it is read. */
  paces?: readonly Pace[]
  clock?: Clock
  /** An open connection to use; otherwise a new one is opened. */
  connection?: Socket
}

export type AgentAnswer = { status: number; text: string }

/** Nothing answered, not even with a refused connection. */
export class NoConnection extends Error {}

const largestHead = 16 * 1024
const longestQuote = 1000

export function requestAgent(
  agent: Endpoint,
  { paces, clock, connection, ...options }: AgentRequestOptions,
): ClientRequest {
  const open = () => (paces ? new PacedConnection(agent, paces, clock) : connect(agent.port, agent.host))
  const { host, port } = agent
  // Bypasses Node's own agents, which keep connections open.
  const createConnection = () => connection ?? open()
  const outgoing = request({ ...options, host, port, createConnection, maxHeaderSize: largestHead })
  // A genuine agent sends no interim answers. They could come without end, and no other limit counts them.
  outgoing.once('information', () =>
    outgoing.destroy(new AppError('internal', 'the agent sent a 1xx answer')),
  )
  return outgoing
}

/**
 * Rejects with the failure of the connection, including a timeout. The signal is not passed to the socket:
 * Node would leave a listener on it for good, and so keep the socket of every refused connection.
 */
export async function openConnection(
  { host, port }: Endpoint,
  withinMs: number,
  signal: AbortSignal,
): Promise<Socket> {
  signal.throwIfAborted()
  const socket = connect({ host, port })
  const abort = () => socket.destroy(signal.reason as Error)
  signal.addEventListener('abort', abort, { once: true })
  socket.setTimeout(withinMs, () => socket.destroy(new NoConnection('no connection')))
  try {
    await once(socket, 'connect')
    socket.setTimeout(0)
    return socket
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/**
 * Resolves with the head of the answer. Without `withinMs`, only the signal of the request limits the wait.
 */
export function responseTo(outgoing: ClientRequest, withinMs?: number): Promise<IncomingMessage> {
  const timer =
    withinMs &&
    setTimeout(() => {
      outgoing.destroy(new AppError('internal', `the agent did not answer within ${withinMs / 1000} s`))
    }, withinMs)
  return new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.on('error', (error) => reject(brokenRules(error) ?? error))
    outgoing.on('response', resolve)
  }).finally(() => clearTimeout(timer))
}

/** Node's parser rejects invalid HTTP, and heads that are too large. */
function brokenRules(error: NodeJS.ErrnoException): AppError | undefined {
  if (!error.code?.startsWith('HPE_')) return undefined
  return new AppError('internal', 'the agent sent an answer that HTTP does not allow', { cause: error })
}

/** Resolves with the status and a quotable part of the text; the rest is not read. */
export async function answerTo(outgoing: ClientRequest): Promise<AgentAnswer> {
  const response = await responseTo(outgoing)
  const { statusCode: status = 0 } = response
  try {
    return { status, text: status < 300 ? '' : await quote(response) }
  } finally {
    outgoing.destroy()
  }
}

async function quote(response: IncomingMessage): Promise<string> {
  let text = ''
  try {
    for await (const chunk of response.setEncoding('utf8') as AsyncIterable<string>) {
      text += chunk
      if (text.length >= longestQuote) break
    }
  } catch {
    // The status is known, even if the text breaks off.
  }
  return text.slice(0, longestQuote)
}
