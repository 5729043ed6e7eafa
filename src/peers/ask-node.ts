/** Asks another node for its part of a client's request, and reads the answer. */
import type { IncomingMessage } from 'node:http'
import type { AskNode } from '../core/cluster/every-node.ts'
import { AppError } from '../lib/app-error.ts'
import { askPeer } from './ask-peer.ts'
import { headForPeer } from './hop.ts'
import type { PeerConnections } from './peer-connections.ts'

/** Long enough for ending all sandboxes of a team, or removing gigabytes. */
const answerWithinMs = 10 * 60_000

export const createAskNode =
  (connections: PeerConnections): AskNode<IncomingMessage> =>
  async (node, request, given) => {
    const body = given === undefined || given === null ? undefined : Buffer.from(JSON.stringify(given))
    const { headers } = headForPeer(request, {
      awaitsContinue: false,
      upgrade: false,
      needs: undefined,
      bodyLength: body?.length,
    })
    const { status, text } = await askPeer(connections, node, {
      method: request.method,
      path: request.url,
      headers,
      body,
      signal: AbortSignal.timeout(answerWithinMs),
    })
    if (status >= 300) throw new AppError('unavailable', `Node ${node.nodeID} answered ${status}: ${text}`)
    return text === '' ? undefined : JSON.parse(text)
  }
