/**
 * The nftables table of one Warren: what may leave a sandbox, and that nothing enters one unasked, not even
 * from this machine's other users.
 * It is loaded in one transaction, so there is no moment without rules. What is closed answers at once
 * instead of keeping quiet, so that programs inside fail fast.
 */
import { networkInterfaces } from 'node:os'
import { closedRanges } from '../../core/egress.ts'
import { runCommand } from '../../lib/run-command.ts'
import type { Layout } from './layout.ts'

export type FirewallOptions = { layout: Layout; subnet: string; dnsServers: readonly string[] }

export class Firewall {
  readonly #options: FirewallOptions
  readonly #table: string

  constructor(options: FirewallOptions) {
    this.#options = options
    this.#table = `inet ${options.layout.table}`
  }

  /** Replaces the whole table; `offline` are the addresses of sandboxes that may not send anything. */
  async load(offline: readonly string[]): Promise<void> {
    await runCommand('nft', ['-f', '-'], {
      input: ruleset({ ...this.#options, offline, hostNetworks: hostNetworks() }),
    })
  }

  async isLoaded(): Promise<boolean> {
    const { stdout } = await runCommand('nft', ['list', 'tables', 'inet'])
    return stdout.split('\n').includes(`table ${this.#table}`)
  }

  async takeOffline(address: string): Promise<void> {
    await runCommand('nft', [`add element ${this.#table} offline { ${address} }`])
  }

  /** A name or address that is not there any more is no failure. */
  async forget(address: string): Promise<void> {
    await runCommand('nft', [
      `add element ${this.#table} offline { ${address} }; delete element ${this.#table} offline { ${address} }`,
    ]).catch(() => {})
  }

  async remove(): Promise<void> {
    await runCommand('nft', ['-f', '-'], { input: `table ${this.#table} {}\ndelete table ${this.#table}\n` })
  }
}

/** The networks this host is on: its neighbours there are nobody's business either, public or not. */
function hostNetworks(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? [])
  const networks = all
    .filter((address) => address.family === 'IPv4' && address.cidr)
    .map((address) => address.cidr!)
  return [...new Set(networks)]
}

type RulesetInput = FirewallOptions & { offline: readonly string[]; hostNetworks: readonly string[] }

export function ruleset({
  layout,
  subnet,
  dnsServers,
  offline,
  hostNetworks: networks,
}: RulesetInput): string {
  const ours = `"${layout.linkPrefix}*"`
  const closed = [...closedRanges, ...networks, subnet].join(', ')
  const elements = (list: readonly string[]) => (list.length > 0 ? `elements = { ${list.join(', ')} }` : '')
  const dns = dnsServers.filter((server) => /^[\d.]+$/.test(server))
  return `table inet ${layout.table} {}
delete table inet ${layout.table}
table inet ${layout.table} {
  set offline { type ipv4_addr; ${elements(offline)} }
  set dns { type ipv4_addr; ${elements(dns)} }
  set closed { type ipv4_addr; flags interval; auto-merge; elements = { ${closed} } }
  chain arriving {
    type filter hook prerouting priority raw; policy accept;
    iifname ${ours} meta nfproto != ipv4 drop
    iifname ${ours} fib saddr . iif oif missing drop
  }
  chain to-host {
    type filter hook input priority filter; policy accept;
    iifname ${ours} ct state established accept
    iifname ${ours} jump refused
  }
  chain from-host {
    type filter hook output priority filter; policy accept;
    oifname ${ours} ct state new meta skuid != 0 jump refused
  }
  chain through {
    type filter hook forward priority filter; policy accept;
    iifname ${ours} tcp flags syn tcp option maxseg size set rt mtu
    oifname ${ours} tcp flags syn tcp option maxseg size set rt mtu
    iifname ${ours} jump from-sandbox
    oifname ${ours} ct state established,related accept
    oifname ${ours} drop
  }
  chain from-sandbox {
    ip saddr @offline jump refused
    oifname ${ours} jump refused
    ct state established,related accept
    ct state invalid drop
    ip daddr @dns udp dport 53 accept
    ip daddr @dns tcp dport 53 accept
    ip daddr @closed jump refused
    accept
  }
  chain refused {
    meta l4proto tcp reject with tcp reset
    reject with icmpx admin-prohibited
  }
  chain leaving {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr ${subnet} oifname != ${ours} masquerade
  }
}
`
}
