/**
 * What nodes ask of each other on their own account. Such a request is marked by a header of the hop, which is taken out
 * of whatever a client sends; so no client can make one, neither at a public door nor through one.
 */
import { type IncomingMessage, request as openRequest, type ServerResponse } from 'node:http'
import { hopHeader } from '../contract/constants.ts'
import type { HandOver, OfferedSandbox } from '../core/cluster/hand-over.ts'
import { AppError, errorText, isAppError } from '../lib/app-error.ts'
import { hopOf } from './hop.ts'
import type { PeerConnections } from './peer-connections.ts'

const takeOffered = 'take offered sandbox'
/** Fetching a snapshot of some gigabytes and resuming it. */
const answerWithinMs = 10 * 60_000
const mostBytes = 4096

type Outcome = { failure?: { isFinal: boolean; message: string } }

export const createHandOver =
  (connections: PeerConnections): HandOver =>
  async (node, offered, signal) => {
    const body = JSON.stringify(offered)
    const within = AbortSignal.any([signal, AbortSignal.timeout(answerWithinMs)])
    const text = await new Promise<string>((resolve, reject) => {
      const headers = ['Host', 'localhost', hopHeader.operation, takeOffered]
      const request = openRequest({
        ...{ agent: connections.poolFor(node), method: 'POST', path: '/', signal: within },
        headers: [...headers, 'Content-Length', String(Buffer.byteLength(body))],
      })
      request.once('error', reject)
      request.once('response', (answer) => void readShort(answer).then(resolve, reject))
      request.end(body)
    }).catch((cause) => {
      throw new AppError('unavailable', `Node ${node.nodeID} did not answer: ${errorText(cause)}`, { cause })
    })
    const { failure } = JSON.parse(text) as Outcome
    if (failure) throw new AppError(failure.isFinal ? 'unprocessable' : 'unavailable', failure.message)
  }

/** False: it is no such request, and was not touched. */
export function answerOperation(
  request: IncomingMessage,
  response: ServerResponse,
  take: (offered: OfferedSandbox) => Promise<void>,
): boolean {
  if (hopOf(request)?.operation !== takeOffered) return false
  const answer = (outcome: Outcome) => response.end(JSON.stringify(outcome))
  readShort(request)
    .then((text) => take(JSON.parse(text)))
    .then(
      () => answer({}),
      (error) =>
        answer({ failure: { isFinal: isAppError(error, 'unprocessable'), message: errorText(error) } }),
    )
  return true
}

async function readShort(message: IncomingMessage): Promise<string> {
  let text = ''
  for await (const piece of message.setEncoding('utf8')) {
    text += piece
    if (text.length > mostBytes) throw new Error('A message of a peer is too long.')
  }
  return text
}
