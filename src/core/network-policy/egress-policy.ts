/** Makes a sandbox's egress policy from its owner's options, and address rules from the policy. */
import { parseRange } from '../../lib/ipv4.ts'
import { type AddressRules, closedToAll, type EgressPolicy } from '../ports/egress.ts'
import { parseHeaderRules } from './header-rules.ts'
import { invalidNetwork } from './invalid-network.ts'
import { parseNamePattern } from './name-patterns.ts'
import type { NetworkOptions } from './network-options.ts'
import { parseProxy } from './proxy-options.ts'

const maxEntries = 256
const maxDnsServers = 10

export type RequestedEgress = {
  /** Null if the client did not set it. */
  allowInternetAccess: boolean | null
  network: NetworkOptions | null
}

/** Throws `invalid_argument` if the options do not make a policy. */
export function egressPolicy({ allowInternetAccess, network }: RequestedEgress): EgressPolicy {
  const allowed = parseAllowed(network?.allowOut ?? [])
  const denyAddresses = parseDenied(network?.denyOut ?? [])
  const internet = allowInternetAccess !== false && !denyAddresses.some(isEverything)
  if (allowed.names.length > 0 && internet) {
    throw invalidNetwork(
      "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny out to block all other traffic.",
    )
  }
  return {
    internet,
    allowAddresses: allowed.addresses,
    allowNames: allowed.names,
    denyAddresses,
    dnsServers: parseDnsServers(network?.dnsServers),
    headerRules: parseHeaderRules(network?.rules ?? {}),
    proxy: network?.egressProxy ? parseProxy(network.egressProxy) : null,
  }
}

export function addressRules(policy: EgressPolicy): AddressRules {
  const readsNames = policy.allowNames.length > 0 || policy.headerRules.length > 0
  const ports = new Set(policy.headerRules.flatMap(({ port }) => port ?? []))
  return {
    allow: policy.allowAddresses,
    deny: policy.internet ? policy.denyAddresses : [closedToAll],
    toGate: policy.proxy ? 'all' : readsNames ? 'web' : 'none',
    ...(ports.size > 0 && { webPorts: [...ports] }),
  }
}

function parseAllowed(entries: readonly string[]): { addresses: string[]; names: string[] } {
  checkCount('allowOut', entries)
  const addresses = new Set<string>()
  const names = new Set<string>()
  for (const entry of entries) {
    const name = parseRange(entry) ? undefined : parseNamePattern(entry)
    if (parseRange(entry)) addresses.add(entry)
    else if (name !== undefined) names.add(name)
    else throw invalidNetwork(`invalid allowed address ${entry}`)
  }
  return { addresses: [...addresses], names: [...names] }
}

function parseDenied(entries: readonly string[]): string[] {
  checkCount('denyOut', entries)
  const bad = entries.find((entry) => !parseRange(entry))
  if (bad !== undefined) throw invalidNetwork(`invalid denied CIDR ${bad}`)
  return [...new Set(entries)]
}

function parseDnsServers(servers: readonly string[] | null | undefined): string[] | null {
  if (!servers) return null
  if (servers.length > maxDnsServers)
    throw invalidNetwork(`dnsServers may name at most ${maxDnsServers} servers`)
  const bad = servers.find((server) => server.includes('/') || !parseRange(server))
  if (bad !== undefined) throw invalidNetwork(`invalid DNS server ${bad}: it must be an IPv4 address`)
  return [...new Set(servers)]
}

function checkCount(field: string, entries: readonly string[]): void {
  if (entries.length <= maxEntries) return
  throw invalidNetwork(`${field} may have at most ${maxEntries} entries; join addresses to CIDR ranges`)
}

function isEverything(network: string): boolean {
  const range = parseRange(network)
  return range?.first === 0 && range.last === 2 ** 32 - 1
}
