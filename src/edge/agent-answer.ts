/**
 * Tells clients of the agent why a request for a living sandbox fails. They take 502, 503 and 504 for a sandbox that
 * is gone, and so does the JavaScript client with a plain 429 in a call. So each kind of request gets an answer that its
 * client tells as it is meant (docs/cluster.md has the list).
 */
import type { IncomingMessage } from 'node:http'

/** The names of the Connect protocol. `aborted`: the request may have been carried out. */
export type AgentCode = 'resource_exhausted' | 'aborted'

export type RenderedAnswer = { status: number; type: string; body: string | Buffer }

const statuses: Record<AgentCode, number> = { resource_exhausted: 429, aborted: 409 }
/** Marks the last message of a stream, which has the error. */
const endOfStream = 2

export function agentAnswer({ headers }: IncomingMessage, code: AgentCode, message: string): RenderedAnswer {
  const stream = /^application\/connect\+(json|proto)$/.exec(headers['content-type'] ?? '')
  if (stream) return { status: 200, type: stream[0], body: lastMessage({ error: { code, message } }) }
  const status = statuses[code]
  const isCall = headers['connect-protocol-version'] !== undefined
  const body = JSON.stringify({ code: isCall ? code : status, message })
  return { status, type: 'application/json', body }
}

function lastMessage(content: object): Buffer {
  const json = Buffer.from(JSON.stringify(content))
  const head = Buffer.alloc(5)
  head.writeUInt8(endOfStream, 0)
  head.writeUInt32BE(json.length, 1)
  return Buffer.concat([head, json])
}
