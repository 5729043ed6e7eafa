/** Sends a request to another node and reads its short answer completely. */
import { type IncomingMessage, request as openRequest } from 'node:http'
import type { ClusterNode } from '../core/cluster/node.ts'
import { AppError, errorText } from '../lib/app-error.ts'
import type { PeerConnections } from './peer-connections.ts'

/** More than the longest path of a request. */
const maxBytes = 80 * 1024

type PeerQuestion = {
  method: string | undefined
  path: string | undefined
  /** Names and values in turn. */
  headers: string[]
  body: Buffer | undefined
  signal: AbortSignal
}

/** Rejects with `unavailable` if the node does not answer. */
export async function askPeer(
  connections: PeerConnections,
  node: ClusterNode,
  { body, ...question }: PeerQuestion,
): Promise<{ status: number; text: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>()
  const request = openRequest({ ...question, agent: connections.poolFor(node) })
  request.once('error', reject)
  request.once('response', (answer) => {
    readShort(answer).then((text) => resolve({ status: answer.statusCode ?? 0, text }), reject)
  })
  request.end(body)
  return promise.catch((cause) => {
    throw new AppError('unavailable', `Node ${node.nodeID} did not answer: ${errorText(cause)}`, { cause })
  })
}

export async function readShort(message: IncomingMessage): Promise<string> {
  let text = ''
  for await (const piece of message.setEncoding('utf8')) {
    text += piece
    if (text.length > maxBytes) throw new Error('A message of a peer is too long.')
  }
  return text
}
