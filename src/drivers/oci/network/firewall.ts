/**
 * The nftables table of one Warren: what may leave a sandbox, and that nothing enters one unasked, not even
 * from this machine's other users.
 * It is loaded in one transaction, so there is no moment without rules. What is closed answers at once
 * instead of keeping quiet, so that programs inside fail fast.
 */
import { readFile } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'
import { type AddressRules, type GatePorts, openRules } from '../../../core/egress.ts'
import { hostNetworks } from '../../../lib/host-networks.ts'
import { ifPresent } from '../../../lib/if-present.ts'
import { KeyedLock } from '../../../lib/keyed-lock.ts'
import { runCommand } from '../../../lib/run-command.ts'
import { changes, type FirewallOptions, type Limited, ruleset } from './ruleset.ts'

/** To count more of them on every new connection takes longer than the connection is worth. */
const mostFlows = 4096
/** So many sandboxes may be at their limit at once before the machine's table is full. */
const sandboxesAtLimit = 32

export class Firewall {
  readonly #options: FirewallOptions & { mostFlows?: number | undefined }
  readonly #present: () => Promise<Limited[]>
  readonly #table: string
  readonly #lock = new KeyedLock()
  #gatePorts: GatePorts | undefined
  /** A change failed, so that the table may hold more than it should. */
  #isStale = false

  /** `present` gives the sandboxes that are there, from what is written down. */
  constructor(
    options: FirewallOptions & { mostFlows?: number | undefined },
    present: () => Promise<Limited[]>,
  ) {
    this.#options = options
    this.#present = present
    this.#table = `inet ${options.layout.table}`
  }

  /** Replaces the whole table. */
  load(): Promise<void> {
    return this.#lock.run('table', () => this.#load())
  }

  async #load(): Promise<void> {
    const limited = await this.#present()
    const networks = [...new Set(hostNetworks().map(({ cidr }) => cidr))]
    const input = { ...this.#options, limited, hostNetworks: networks, gatePorts: this.#gatePorts }
    await this.#nft(ruleset({ ...input, mostFlows: input.mostFlows ?? (await flowsPerSandbox()) }))
    this.#isStale = false
  }

  async openGate(ports: GatePorts): Promise<void> {
    this.#gatePorts = ports
    await this.load()
  }

  async isWhole(): Promise<boolean> {
    const { stdout } = await runCommand('nft', ['list', 'tables', 'inet'])
    return !this.#isStale && stdout.split('\n').includes(`table ${this.#table}`)
  }

  /** What is written down has to say so already: where this fails, the table is made anew from that. */
  async replace(address: string, before: AddressRules, after: AddressRules): Promise<void> {
    if (isDeepStrictEqual(before, after)) return
    const text = changes(this.#table, { address, egress: before }, { address, egress: after })
    await this.#lock.run('table', () => this.#nft(text).catch(() => this.#load()))
  }

  /** Removes the rules of a sandbox that has ended. A failure waits for the next look at the table. */
  async forget({ address, egress }: Limited): Promise<void> {
    const text = changes(this.#table, { address, egress }, { address, egress: openRules })
    if (text === '') return
    await this.#lock.run('table', () =>
      this.#nft(text).catch(() => {
        this.#isStale = true
      }),
    )
  }

  async remove(): Promise<void> {
    await this.#nft(`table ${this.#table} {}\ndelete table ${this.#table}\n`)
  }

  async #nft(input: string): Promise<void> {
    await runCommand('nft', ['-f', '-'], { input })
  }
}

/** What the kernel can remember is known once it remembers any; until then its usual choice is large enough. */
async function flowsPerSandbox(): Promise<number> {
  const all = await ifPresent(readFile('/proc/sys/net/netfilter/nf_conntrack_max', 'utf8'))
  return Math.min(mostFlows, Math.ceil((Number(all) || mostFlows * sandboxesAtLimit) / sandboxesAtLimit))
}
