/** Asks another node for its part of a request, as the client made it, and reads the answer. */
import { type IncomingMessage, request as openRequest } from 'node:http'
import type { AskNode } from '../core/cluster/every-node.ts'
import { AppError, errorText } from '../lib/app-error.ts'
import { headForPeer } from './hop.ts'
import type { PeerConnections } from './peer-connections.ts'

/** Ending all sandboxes of a team, or removing gigabytes. */
const answerWithinMs = 10 * 60_000
const mostBytes = 64 * 1024

export const createAskNode =
  (connections: PeerConnections): AskNode =>
  async (node, request, body) => {
    const sent = body === undefined || body === null ? undefined : Buffer.from(JSON.stringify(body))
    const { headers } = headForPeer(request, {
      ...{ awaitsContinue: false, upgrade: false, needs: undefined, bodyLength: sent?.length },
    })
    const { status, text } = await new Promise<{ status: number; text: string }>((resolve, reject) => {
      const asked = openRequest({
        ...{ agent: connections.poolFor(node), method: request.method, path: request.url, headers },
        signal: AbortSignal.timeout(answerWithinMs),
      })
      asked.once('error', reject)
      asked.once('response', (answer) => {
        readText(answer).then((text) => resolve({ status: answer.statusCode ?? 0, text }), reject)
      })
      asked.end(sent)
    }).catch((cause) => {
      throw new AppError('unavailable', `Node ${node.nodeID} did not answer: ${errorText(cause)}`, { cause })
    })
    if (status >= 300) throw new AppError('unavailable', `Node ${node.nodeID} answered ${status}: ${text}`)
    return text === '' ? undefined : JSON.parse(text)
  }

async function readText(message: IncomingMessage): Promise<string> {
  let text = ''
  for await (const piece of message.setEncoding('utf8')) {
    text += piece
    if (text.length > mostBytes) throw new Error('The answer of a peer is too long.')
  }
  return text
}
