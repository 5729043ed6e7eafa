/**
 * The text of the nftables table: shared parts are rules, per-sandbox parts are elements of sets, so that a
 * packet passes as many rules beside five hundred sandboxes as alone. Every packet is checked, also those of
 * open connections: connections that a new policy does not allow end at once.
 */
import type { AddressRules, GatePorts } from '../../../core/ports/egress.ts'
import { AppError } from '../../../lib/app-error.ts'
import { internalRanges } from '../../../lib/internal-ranges.ts'
import { type AddressRange, mergeRanges, numberToAddress, parseRange } from '../../../lib/ipv4.ts'
import type { Layout } from '../record/layout.ts'
import type { Subnet } from './addresses.ts'
import { countingRules, type FlowShares, flowSets } from './flow-shares.ts'

export type FirewallOptions = {
  layout: Layout
  subnet: Subnet
  dnsServers: readonly string[]
  /** Closed ranges that the operator opened; a sandbox's own rules still apply there. */
  openedRanges: readonly string[]
}

/** A sandbox by the address of its packets. */
export type Limited = { address: string; egress: AddressRules }

type RulesetInput = FirewallOptions & {
  shares: FlowShares
  /** As in flow-shares.ts. */
  hasParts: boolean
  owners: ReadonlyMap<string, number> | undefined
  /** The kernel can be told how long it remembers connections. */
  hasTimeouts: boolean
  limited: readonly Limited[]
  hostNetworks: readonly string[]
  gatePorts: GatePorts | undefined
}

/** The per-sandbox sets. */
export const ownSets = ['allowed', 'denied', 'gated', 'tunnelled', 'web'] as const
export type OwnSet = (typeof ownSets)[number]

export function elementsOf({ address, egress }: Limited): Record<OwnSet, string[]> {
  return {
    allowed: pairs(address, egress.allow),
    denied: pairs(address, egress.deny),
    gated: egress.toGate === 'none' ? [] : [address],
    tunnelled: egress.toGate === 'all' ? [address] : [],
    web: egress.toGate === 'web' ? (egress.webPorts ?? []).map((port) => `${address} . ${port}`) : [],
  }
}

/** A set of pairs accepts no overlapping elements. */
function pairs(address: string, networks: readonly string[]): string[] {
  return mergeRanges(networks.map(rangeOf)).map((range) => `${address} . ${rangeElement(range)}`)
}

export function rangeElement({ first, last }: AddressRange): string {
  return `${numberToAddress(first)}${first === last ? '' : `-${numberToAddress(last)}`}`
}

function rangeOf(network: string): AddressRange {
  const range = parseRange(network)
  if (range) return range
  throw new AppError('invalid_argument', `"${network}" is not an IPv4 network.`)
}

/** Checked before the record is written: an invalid record would keep the table from being loaded. */
export function assertRules({ allow, deny }: AddressRules): void {
  for (const network of [...allow, ...deny]) rangeOf(network)
}

/** In one transaction. Adding an existing element and deleting a missing one are no failures. */
export function changes(table: string, before: Limited, after: Limited): string {
  const [old, next] = [elementsOf(before), elementsOf(after)]
  const say = (verb: string, set: OwnSet, elements: string[]) =>
    elements.length > 0 ? `${verb} element ${table} ${set} { ${elements.join(', ')} }\n` : ''
  return ownSets
    .map((set) => {
      const gone = old[set].filter((element) => !next[set].includes(element))
      return say('add', set, gone) + say('delete', set, gone) + say('add', set, next[set])
    })
    .join('')
}

/**
 * Connections that are closing or closed do not count against the share of a sandbox, so they must not stay for minutes: a
 * sandbox could fill the machine's table with them.
 */
const closingTimeouts =
  'ct timeout closing { protocol tcp; l3proto ip; policy = { fin_wait : 30, close_wait : 60, last_ack : 10, time_wait : 10, close : 5 }; }'
const useClosingTimeouts = 'meta l4proto tcp ct state new ct timeout set "closing"'

/** A table that a kernel rejects if it has no such timeouts. */
export const timeoutTrial = (table: string): string => `table inet ${table}_trial {
  ${closingTimeouts}
  chain opening {
    type filter hook prerouting priority mangle; policy accept;
    ${useClosingTimeouts}
  }
}
`

export function ruleset(input: RulesetInput): string {
  const { layout, subnet, gatePorts } = input
  const ours = `"${layout.linkPrefix}*"`
  const closed = [...internalRanges, ...input.hostNetworks, subnet.cidr]
  const all = input.limited.map(elementsOf)
  const own = (set: OwnSet) => filled(all.flatMap((elements) => elements[set]))
  const dns = input.dnsServers.filter((server) => /^[\d.]+$/.test(server))
  const question = 'meta l4proto { tcp, udp } th dport 53'
  return `table inet ${layout.table} {}
delete table inet ${layout.table}
table inet ${layout.table} {
  set allowed { type ipv4_addr . ipv4_addr; flags interval; ${own('allowed')} }
  set denied { type ipv4_addr . ipv4_addr; flags interval; ${own('denied')} }
  set gated { type ipv4_addr; ${own('gated')} }
  set tunnelled { type ipv4_addr; ${own('tunnelled')} }
  set web { type ipv4_addr . inet_service; ${own('web')} }
  set dns { type ipv4_addr; ${filled(dns)} }
  set closed { type ipv4_addr; flags interval; auto-merge; ${filled(closed)} }
  ${flowSets(input)}
  set opened { type ipv4_addr; flags interval; auto-merge; ${filled(input.openedRanges)} }
  ${input.hasTimeouts ? closingTimeouts : ''}
  # Before fragments are put together. The only route over a sandbox's link leads to its own address, so no other
  # sender passes. Options could ask routers further on for another way than the one that the rules see.
  chain arriving {
    type filter hook prerouting priority -450; policy accept;
    iifname != ${ours} accept
    meta nfproto != ipv4 drop
    ip saddr != ${subnet.cidr} drop
    fib saddr . iif oif missing drop
    ip hdrlength != 5 drop
  }
  # All sandboxes share the machine's connection table. Only its first packet opens a connection: what is left of one
  # that was forgotten must not enter the table again.
  chain opening {
    type filter hook prerouting priority mangle; policy accept;
    iifname != ${ours} accept
    meta l4proto tcp ct state new tcp flags & (fin | syn | rst | ack) != syn reject with tcp reset
    ct state != new accept
    ct status & confirmed != 0 accept
    ${countingRules(input)}
    ${input.hasTimeouts ? useClosingTimeouts : ''}
  }
  ${handOver(input, ours, question)}
  chain to-host {
    type filter hook input priority filter; policy accept;
    iifname != ${ours} ip daddr ${subnet.gate} ct direction original jump refused
    iifname != ${ours} accept
    ct direction reply ct state established,related accept
    ct status dnat ip daddr ${subnet.gate} ip saddr @gated accept
    ${gatePorts ? `ct status dnat ip daddr ${subnet.gate} meta l4proto { tcp, udp } th dport ${gatePorts.dns} accept` : ''}
    jump refused
  }
  chain from-host {
    type filter hook output priority filter; policy accept;
    oifname != ${ours} accept
    meta l4proto tcp ct state new tcp flags & (fin | syn | rst | ack) != syn drop
    ct state new meta skuid != 0 jump refused
  }
  chain through {
    type filter hook forward priority filter; policy accept;
    iifname ${ours} tcp flags syn tcp option maxseg size set rt mtu
    oifname ${ours} tcp flags syn tcp option maxseg size set rt mtu
    iifname ${ours} jump from-sandbox
    oifname ${ours} jump to-sandbox
  }
  chain from-sandbox {
    oifname ${ours} jump refused
    ip daddr @closed ip daddr != @opened jump closed-range
    ip saddr @tunnelled jump refused
    ip saddr . ip daddr @allowed goto let-through
    ip saddr @gated meta l4proto { tcp, udp } th dport { 53, 80, 443 } jump refused
    ip saddr . tcp dport @web jump refused
    ip saddr . ip daddr @denied jump refused
    goto let-through
  }
  chain closed-range {
    ip daddr @dns ${question} return
    jump refused
  }
  # A process that has ended waits for the end of its connections, which may be forgotten already.
  chain let-through {
    ct state invalid tcp flags & fin == fin reject with tcp reset
    ct state invalid drop
    accept
  }
  # What TCP answers on a connection that is not allowed any more makes the sandbox speak, and that ends it.
  chain to-sandbox {
    ct state related accept
    ct state != established drop
    meta l4proto tcp accept
    ip daddr @tunnelled drop
    ip daddr . ip saddr @allowed accept
    ip daddr . ip saddr @denied drop
    accept
  }
  chain refused {
    meta l4proto tcp reject with tcp reset
    # gVisor tells its programs of this message alone, as "connection refused".
    meta l4proto udp reject with icmpx port-unreachable
    reject with icmpx admin-prohibited
  }
  chain leaving {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr ${subnet.cidr} oifname != ${ours} masquerade
  }
}
`
}

/**
 * Without a gate, its traffic continues to the chains above and is rejected there. Questions to a name server of
 * the sandbox that would be rejected are redirected too: not every program notices a rejected datagram, and the
 * gate can answer that there is no such name. Questions to other servers fail.
 */
function handOver({ gatePorts, subnet }: RulesetInput, ours: string, question: string): string {
  if (!gatePorts) return ''
  return `chain handing-over {
    type nat hook prerouting priority dstnat; policy accept;
    iifname != ${ours} accept
    ip daddr @dns ip saddr . ip daddr @denied ip saddr . ip daddr != @allowed ${question} dnat ip to ${subnet.gate}:${gatePorts.dns}
    ip saddr != @gated accept
    ip saddr != @tunnelled ip saddr . ip daddr @allowed accept
    ${question} dnat ip to ${subnet.gate}:${gatePorts.dns}
    ip daddr @closed ip daddr != @opened accept
    ip saddr @tunnelled meta l4proto tcp dnat ip to ${subnet.gate}:${gatePorts.proxy}
    tcp dport { 80, 443 } dnat ip to ${subnet.gate}:${gatePorts.proxy}
    ip saddr . tcp dport @web dnat ip to ${subnet.gate}:${gatePorts.proxy}
  }`
}

const filled = (elements: readonly string[]): string =>
  elements.length > 0 ? `elements = { ${elements.join(', ')} };` : ''
