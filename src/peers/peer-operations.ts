/**
 * Requests that nodes make of each other on their own account. A header of the hop marks such a request. That
 * header is removed from every client request, so no client can make one, neither directly nor through a
 * public door.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { hopHeader } from '../contract/constants.ts'
import type { AskForFile, SignedFile } from '../core/cluster/file-search.ts'
import type { HandOver, OfferedSandbox } from '../core/cluster/hand-over.ts'
import type { ClusterNode } from '../core/cluster/node.ts'
import { AppError, errorText, isAppError } from '../lib/app-error.ts'
import { askPeer, readShort } from './ask-peer.ts'
import { hopOf } from './hop.ts'
import type { PeerConnections } from './peer-connections.ts'

/** Long enough for fetching and resuming a snapshot of some gigabytes. */
const handOverWithinMs = 10 * 60_000
const findFileWithinMs = 3000

/** The operations that a node offers its peers, by name. */
export type PeerOperations = {
  'take offered sandbox': (offered: OfferedSandbox) => Promise<void>
  /** Returns the sandbox of this node whose agent token made the signature. */
  'find signed file': (file: SignedFile) => Promise<string | undefined>
}

type OperationName = keyof PeerOperations

type Outcome = { result?: unknown; failure?: { isFinal: boolean; message: string } }

export const createHandOver =
  (connections: PeerConnections): HandOver =>
  async (node, offered, signal) => {
    const within = AbortSignal.any([signal, AbortSignal.timeout(handOverWithinMs)])
    await ask(connections, node, 'take offered sandbox', offered, within)
  }

export const createAskForFile =
  (connections: PeerConnections): AskForFile =>
  async (node, file, signal) => {
    const within = AbortSignal.any([signal, AbortSignal.timeout(findFileWithinMs)])
    const found = await ask(connections, node, 'find signed file', file, within)
    return typeof found === 'string' ? found : undefined
  }

async function ask(
  connections: PeerConnections,
  node: ClusterNode,
  name: OperationName,
  asked: object,
  signal: AbortSignal,
): Promise<unknown> {
  const body = Buffer.from(JSON.stringify(asked))
  const { text } = await askPeer(connections, node, {
    method: 'POST',
    path: '/',
    body,
    signal,
    headers: ['Host', 'localhost', hopHeader.operation, name, 'Content-Length', String(body.length)],
  })
  const { result, failure } = JSON.parse(text) as Outcome
  if (failure) throw new AppError(failure.isFinal ? 'unprocessable' : 'unavailable', failure.message)
  return result
}

/** False if the request is not an operation; it is untouched then. */
export function answerOperation(
  request: IncomingMessage,
  response: ServerResponse,
  operations: PeerOperations,
): boolean {
  const name = hopOf(request)?.operation
  if (name === undefined || !Object.hasOwn(operations, name)) return false
  const answer = (outcome: Outcome) => response.end(JSON.stringify(outcome))
  const run = operations[name as OperationName] as (asked: never) => Promise<unknown>
  readShort(request)
    .then((text) => run(JSON.parse(text) as never))
    .then(
      (result) => answer({ result }),
      (error) =>
        answer({ failure: { isFinal: isAppError(error, 'unprocessable'), message: errorText(error) } }),
    )
  return true
}
