/** Writes the head of a request that leaves the gate: the gate sets Host and the headers of a rule. */
import type { IncomingMessage } from 'node:http'
import { type OutgoingHead, outgoingHead } from '../lib/http-relay/headers.ts'
import { hopByHop } from '../lib/http-relay/hop-by-hop.ts'

const ownedByGate: ReadonlySet<string> = new Set(['host'])
/** A rule must not set headers that frame the message. */
const framing = new Set([...hopByHop, 'content-length', 'expect', 'trailer'])

type GateHeadOptions = {
  host: string
  /**
   * The headers of the rule, with placeholders replaced. They override the sandbox's headers of the same
   * names.
   */
  set: Readonly<Record<string, string>>
  upgrade: boolean
}

/** Throws a `MalformedHead` for a request that two servers could interpret differently. */
export function headForHost(
  request: Pick<IncomingMessage, 'method' | 'rawHeaders'>,
  { host, set, upgrade }: GateHeadOptions,
): OutgoingHead {
  const added = Object.entries(set).filter(([name]) => !isOfTheGate(name.toLowerCase()))
  const own =
    added.length === 0 ? ownedByGate : new Set([...ownedByGate, ...added.map(([name]) => name.toLowerCase())])
  const head = outgoingHead(request, { own, awaitsContinue: false, upgrade, trailers: false })
  const headers = ['Host', host, ...head.headers, ...added.flat()]
  return { headers, hasBody: head.hasBody }
}

const isOfTheGate = (name: string) => ownedByGate.has(name) || framing.has(name)
