/**
 * Requests that nodes make of each other on their own account. A header of the hop marks such a request. That
 * header is removed from every client request, so no client can make one, neither directly nor through a
 * public door.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { hopHeader } from '../contract/constants.ts'
import type { AskForFile, SignedFile } from '../core/cluster/file-search.ts'
import type { AskWhyUnfit, HandOver, OfferedSandbox } from '../core/cluster/hand-over.ts'
import type { ClusterNode } from '../core/cluster/node.ts'
import type { MemoryNeeds } from '../core/ports/driver.ts'
import { AppError, errorText, isAppError } from '../lib/app-error.ts'
import { discardBody } from '../lib/http-relay/discard-body.ts'
import { askPeer, readShort } from './ask-peer.ts'
import { hopOf } from './hop.ts'
import type { PeerConnections } from './peer-connections.ts'

/** Long enough for fetching and resuming a snapshot of some gigabytes. */
const handOverWithinMs = 10 * 60_000
const findFileWithinMs = 3000
const whyUnfitWithinMs = 10_000
/** What a node answers to the name of an operation that it does not know; the others are those of its API. */
const unknownOperation = 501
const unknownStatuses: readonly number[] = [404, 405, unknownOperation]

/** The operations that a node offers its peers, by name. */
export type PeerOperations = {
  'take offered sandbox': (offered: OfferedSandbox) => Promise<void>
  /** Returns the sandbox of this node whose agent token made the signature. */
  'find signed file': (file: SignedFile) => Promise<string | undefined>
  /** Says why memory with these needs cannot be restored on this node. */
  'say why memory is unfit': (asked: { needs: MemoryNeeds }) => Promise<string | undefined>
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

/** Undefined also if the node is of a release that cannot say: it says so when the sandbox is offered. */
export const createAskWhyUnfit =
  (connections: PeerConnections): AskWhyUnfit =>
  async (node, needs, signal) => {
    const within = AbortSignal.any([signal, AbortSignal.timeout(whyUnfitWithinMs)])
    const why = await ask(connections, node, 'say why memory is unfit', { needs }, within).catch((error) => {
      if (error instanceof UnknownOperation) return undefined
      throw error
    })
    return typeof why === 'string' ? why : undefined
  }

class UnknownOperation extends AppError {
  constructor({ nodeID }: ClusterNode, name: OperationName) {
    super('unavailable', `Node ${nodeID} is of a release that does not know how to ${name}.`)
  }
}

async function ask(
  connections: PeerConnections,
  node: ClusterNode,
  name: OperationName,
  asked: object,
  signal: AbortSignal,
): Promise<unknown> {
  const body = Buffer.from(JSON.stringify(asked))
  const { status, text } = await askPeer(connections, node, {
    method: 'POST',
    path: '/',
    body,
    signal,
    headers: ['Host', 'localhost', hopHeader.operation, name, 'Content-Length', String(body.length)],
  })
  if (unknownStatuses.includes(status)) throw new UnknownOperation(node, name)
  if (status !== 200) throw new AppError('unavailable', `Node ${node.nodeID} answered ${status}: ${text}`)
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
  if (name === undefined) return false
  if (!Object.hasOwn(operations, name)) {
    response.writeHead(unknownOperation).end()
    discardBody(request, response)
    return true
  }
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
