/**
 * The headers that one Warren adds to a request for another. They are read only on connections of peers and
 * removed from every request on both sides, so that neither a client nor a sandbox can set or see them.
 */
import type { IncomingMessage } from 'node:http'
import { hopHeader, hopHeaderPrefix } from '../contract/constants.ts'
import type { NeededCapacity } from '../core/cluster/forwarder.ts'
import { originOf, setOrigin } from '../lib/client-origin.ts'
import { discardBody } from '../lib/http-relay/discard-body.ts'
import {
  answerHeaders,
  type HeaderNames,
  headerValue,
  type OutgoingHead,
  outgoingHead,
} from '../lib/http-relay/headers.ts'
import type { HttpExchange } from '../lib/http-relay/http-relay.ts'
import { requestIDHeader, requestIDOf } from '../lib/request-id.ts'

const {
  clientAddress: address,
  clientProtocol: protocol,
  neededCapacity,
  refusal,
  made,
  operation,
  attempt,
} = hopHeader

/**
 * All names that begin so, also those that this version does not know. A client of this node could otherwise set
 * a header that only a newer node reads.
 */
const ofHop: HeaderNames = { has: (name) => name.startsWith(hopHeaderPrefix) }

export type Refusal = 'not the owner' | 'no room'

type Hop = {
  needs: NeededCapacity | undefined
  /** Names one attempt of a door to have a create carried out. */
  attemptID: string | undefined
  /** Set if the peer itself sends the request, not a client. */
  operation: string | undefined
}

const hops = new WeakMap<IncomingMessage, Hop>()

/** Call it for every request on a connection of a peer, before anything else reads the request. */
export function takeHop(request: IncomingMessage): void {
  const { rawHeaders, headers } = request
  const found = new Map<string, string>()
  for (let i = rawHeaders.length - 2; i >= 0; i -= 2) {
    const name = rawHeaders[i]!.toLowerCase()
    if (!ofHop.has(name)) continue
    found.set(name, rawHeaders[i + 1]!)
    rawHeaders.splice(i, 2)
    delete headers[name]
  }
  setOrigin(request, {
    address: found.get(address) ?? 'unknown',
    protocol: found.get(protocol) === 'https' ? 'https' : 'http',
  })
  hops.set(request, {
    needs: parseCapacity(found.get(neededCapacity)),
    attemptID: found.get(attempt),
    operation: found.get(operation),
  })
}

function parseCapacity(text = ''): NeededCapacity | undefined {
  // A newer node may add further numbers.
  const [, cpuCount, memoryMB, gpuCount = 0] = /^(\d+) (\d+)(?: (\d+))?(?: |$)/.exec(text) ?? []
  if (memoryMB === undefined) return undefined
  return { cpuCount: Number(cpuCount), memoryMB: Number(memoryMB), gpuCount: Number(gpuCount) }
}

/** A node of an earlier version does not know of GPUs, and gets no sandbox that needs one. */
const capacityText = ({ cpuCount, memoryMB, gpuCount = 0 }: NeededCapacity): string =>
  [cpuCount, memoryMB, ...(gpuCount > 0 ? [gpuCount] : [])].join(' ')

/** Undefined: a client made the request. */
export const hopOf = (request: IncomingMessage): Hop | undefined => hops.get(request)

type HopOptions = {
  awaitsContinue: boolean
  upgrade: boolean
  needs: NeededCapacity | undefined
  attemptID?: string | undefined
  /** The length of the body, if it was read already. */
  bodyLength?: number | undefined
}

/** Throws a `MalformedHead` for a request that two servers could interpret differently. */
export function headForPeer(request: IncomingMessage, options: HopOptions): OutgoingHead {
  const { awaitsContinue, upgrade, bodyLength } = options
  const head = outgoingHead(request, { own: ofHop, awaitsContinue, upgrade, trailers: true })
  const { headers } = head
  const origin = originOf(request)
  headers.push(address, origin.address, protocol, origin.protocol)
  // Lets both nodes log the request under one ID. A client's own ID is passed on unchanged.
  if (request.headers[requestIDHeader] === undefined) headers.push(requestIDHeader, requestIDOf(request))
  const { needs, attemptID } = options
  if (needs) headers.push(neededCapacity, capacityText(needs))
  if (attemptID !== undefined) headers.push(attempt, attemptID)
  if (bodyLength === undefined) return head
  const framed = withoutFraming(headers)
  return { headers: [...framed, 'Content-Length', String(bodyLength)], hasBody: true }
}

function withoutFraming(headers: readonly string[]): string[] {
  return headers.filter((_, at) => !isFraming(headers[at - (at % 2)]!))
}

const isFraming = (name: string): boolean => /^(content-length|transfer-encoding|expect|trailer)$/i.test(name)

export const headersFromPeer = (raw: readonly string[], keepsTrailers: boolean): string[] =>
  answerHeaders(raw, { trailers: keepsTrailers, drops: (name) => ofHop.has(name) })

/** Tells a peer why this node does not answer its client. */
export function answerRefusal({ request, response }: HttpExchange, status: 421 | 503, why: Refusal): void {
  response.writeHead(status, { [refusal]: why, 'Content-Length': 0 })
  response.end()
  discardBody(request, response)
}

/** The same for a peer whose request has not been read, and will not be. */
export const refusalText = [
  'HTTP/1.1 421 Misdirected Request',
  `${refusal}: ${'not the owner' satisfies Refusal}`,
  'Content-Length: 0',
  'Connection: close',
  '\r\n',
].join('\r\n')

export function refusalOf({ headers }: IncomingMessage): Refusal | undefined {
  const why = headers[refusal]
  return why === 'not the owner' || why === 'no room' ? why : undefined
}

/** Tells a peer which sandboxes this node created for the request. */
export function reportMade({ response }: HttpExchange, sandboxIDs: readonly string[]): void {
  if (sandboxIDs.length > 0) response.setHeader(made, sandboxIDs.join(' '))
}

export const madeIn = (raw: readonly string[]): readonly string[] => headerValue(raw, made)?.split(' ') ?? []

/** Trailers that an answer to a peer must not contain. */
export const trailersOfHop = ofHop
