/** The head of a request as it leaves the gate: Host and the headers of a rule are the gate's to write. */
import type { IncomingMessage } from 'node:http'
import { type OutgoingHead, outgoingHead } from '../lib/http-relay/headers.ts'
import { hopByHop } from '../lib/http-relay/hop-by-hop.ts'

const ownedByGate: ReadonlySet<string> = new Set(['host'])
/** How a message is framed is not a rule's to say. */
const framing = new Set([...hopByHop, 'content-length', 'expect', 'trailer'])

export type GateHeadOptions = {
  host: string
  /** The headers of the rule, filled in. They replace what the sandbox sent under the same names. */
  set: Readonly<Record<string, string>>
  upgrade: boolean
}

/** Throws a `MalformedHead` for a request that two servers could read in two ways. */
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
