/**
 * One HTTP request to an agent, on a connection of its own: nothing is kept open to a sandbox that may go at any time.
 * Root inside a sandbox can put any program in the agent's place. So an answer is hostile until it is read: its head,
 * its interim answers and what is read of its body are bounded here.
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
  /** What a long answer may cost over time; a short one needs no pace, since little of it is read. */
  paces?: readonly Pace[]
  clock?: Clock
  /** One that is open already; otherwise one is opened. */
  connection?: Socket
}

export type AgentAnswer = { status: number; text: string }

/** Nothing answered, not even to say that nobody listens. */
export class NoConnection extends Error {}

const largestHead = 16 * 1024
const longestQuote = 1000

export function requestAgent(
  agent: Endpoint,
  { paces, clock, connection, ...options }: AgentRequestOptions,
): ClientRequest {
  const open = () => (paces ? new PacedConnection(agent, paces, clock) : connect(agent.port, agent.host))
  const { host, port } = agent
  // Node's own agents, which keep connections, are left out.
  const createConnection = () => connection ?? open()
  const outgoing = request({ ...options, host, port, createConnection, maxHeaderSize: largestHead })
  // No agent sends interim answers. They may come without end, and none of them counts towards any other limit.
  outgoing.once('information', () =>
    outgoing.destroy(new AppError('internal', 'the agent sent a 1xx answer')),
  )
  return outgoing
}

/**
 * Rejects with what kept the connection from being made, the wait for it included. The signal is not given to the socket:
 * Node would leave a listener on it for good, and with that the socket of every connection that an agent refused.
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

/** Resolves with the head of the answer. Without `withinMs`, only the signal of the request bounds the wait. */
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

/** Node's parser rejects what is no HTTP, and heads that are too large. */
function brokenRules(error: NodeJS.ErrnoException): AppError | undefined {
  if (!error.code?.startsWith('HPE_')) return undefined
  return new AppError('internal', 'the agent sent an answer that HTTP does not allow', { cause: error })
}

/** Resolves with the status and as much of the text as is worth quoting; the rest is not read. */
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
    // The status is known: a text that breaks off takes nothing away from it.
  }
  return text.slice(0, longestQuote)
}
