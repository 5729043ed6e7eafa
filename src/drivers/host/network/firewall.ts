/**
 * The nftables table of one Warren: enforces egress rules, and lets nothing enter a sandbox unasked, not even
 * from this machine's other users.
 * It is loaded in one transaction, so that there is no moment without rules. Closed destinations reject at
 * once instead of dropping packets, so that programs inside fail fast.
 */
import { isDeepStrictEqual } from 'node:util'
import { type AddressRules, type GatePorts, openRules } from '../../../core/ports/egress.ts'
import { AppError } from '../../../lib/app-error.ts'
import { hostNetworks } from '../../../lib/host-networks.ts'
import { KeyedLock } from '../../../lib/keyed-lock.ts'
import { runCommand } from '../../../lib/run-command.ts'
import { type FlowShares, numberOwners, ownerChanges, partsTrial, readFlowShares } from './flow-shares.ts'
import { holdsExactly, type ListedTable, readListedTable } from './listed-table.ts'
import { changes, type FirewallOptions, type Limited, ruleset, timeoutTrial } from './ruleset.ts'

type FirewallParts = FirewallOptions & {
  /** Shares of the machine's table of connections; by default they follow from its size. */
  flowShares?: Partial<FlowShares> | undefined
  /** Runs nft with this input and returns its output; tests let it fail. */
  nft?: (args: readonly string[], input?: string) => Promise<string>
}

export class Firewall {
  readonly #options: FirewallParts
  readonly #present: () => Promise<Limited[]>
  readonly #table: string
  readonly #lock = new KeyedLock()
  #gatePorts: GatePorts | undefined
  /** A change failed, so the contents of the table are unknown until it is loaded again. */
  #isStale = false
  /**
   * The rules that the kernel has accepted, by address. Undefined if this process has not loaded the table.
   */
  #applied: Map<string, AddressRules> | undefined
  /**
   * The part that is the same for all sandboxes, as nft listed it right after the load. Undefined if this nft
   * lists tables in an unknown form, so that they cannot be compared.
   */
  #shared: string | undefined

  /** The kernel can be told how long it remembers connections. */
  #hasTimeouts = false
  /** The numbers of owners by their name, and by link as the kernel has them. Undefined: nobody has told owners yet. */
  #numbers = new Map<string, number>()
  #owners: ReadonlyMap<string, number> | undefined
  /** Undefined: not known yet. */
  #hasParts: boolean | undefined

  /** `present` returns the existing sandboxes from their records. */
  constructor(options: FirewallParts, present: () => Promise<Limited[]>) {
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
    const shares = await this.readShares()
    this.#hasTimeouts ||= await this.#accepts(timeoutTrial(this.#options.layout.table))
    const hasParts = this.#hasParts || (await this.#accepts(partsTrial(this.#options.layout.table)))
    this.#hasParts = hasParts
    const owners = this.#owners
    await this.#nft(ruleset({ ...input, shares, hasParts, owners, hasTimeouts: this.#hasTimeouts }))
    this.#applied = new Map(limited.map(({ address, egress }) => [address, egress]))
    this.#isStale = false
    const listed = await this.#list().catch(() => undefined)
    this.#shared = listed && holdsExactly(listed, limited) ? listed.shared : undefined
  }

  readShares(): Promise<FlowShares> {
    return readFlowShares(this.#options.flowShares)
  }

  /** Whether the kernel would take this table. Changes nothing. */
  #accepts(trial: string): Promise<boolean> {
    return this.#run(['-c', '-f', '-'], trial).then(
      () => true,
      () => false,
    )
  }

  /**
   * From now on the sandboxes of an owner have a share of connections together. `owners` returns the owners by link, as
   * of the moment when it is called, of all sandboxes whose owner is known. False: this machine cannot count by owner.
   */
  async shareFlows(owners: () => ReadonlyMap<string, string>): Promise<boolean> {
    return this.#lock.run('table', async () => {
      if (this.#hasParts === undefined) await this.#load()
      if (!this.#hasParts) return false
      const ownerOf = owners()
      const before = this.#owners
      this.#numbers = numberOwners(ownerOf, this.#numbers)
      const after = new Map([...ownerOf].map(([link, owner]) => [link, this.#numbers.get(owner)!]))
      this.#owners = after
      try {
        if (!before || this.#isStale) await this.#load()
        else await this.#changeOwners(before, after)
      } catch (error) {
        this.#isStale = true
        throw error
      }
      return true
    })
  }

  /** The link gets another sandbox, whose owner the kernel does not know yet. After a failure, the next call of `shareFlows` repairs it. */
  async disown(link: string): Promise<void> {
    if (!this.#owners?.has(link)) return
    await this.#lock.run('table', async () => {
      const before = this.#owners!
      this.#owners = new Map([...before].filter(([other]) => other !== link))
      try {
        if (!this.#isStale) await this.#changeOwners(before, this.#owners)
      } catch {
        this.#isStale = true
      }
    })
  }

  async #changeOwners(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>) {
    const text = ownerChanges(this.#table, before, after)
    if (text !== '') await this.#nft(text)
  }

  async openGate(ports: GatePorts): Promise<void> {
    this.#gatePorts = ports
    await this.load()
  }

  /** True if the table exists, and nothing failed since it was loaded. */
  async isWhole(): Promise<boolean> {
    const listed = await this.#run(['list', 'tables', 'inet'])
    return !this.#isStale && listed.split('\n').includes(`table ${this.#table}`)
  }

  /** True if the kernel has exactly the applied rules; false if somebody else changed the table. */
  isAsApplied(): Promise<boolean> {
    return this.#lock.run('table', async () => {
      if (this.#isStale || !this.#applied) return false
      if (this.#shared === undefined) return true
      const limited = [...this.#applied].map(([address, egress]) => ({ address, egress }))
      const listed = await this.#list()
      return listed.shared === this.#shared && holdsExactly(listed, limited)
    })
  }

  /**
   * The record must contain the new rules already: if this fails, the table is rebuilt from the records.
   * `before` counts only in a process that has not loaded the table. After a rejection it is unknown which
   * rules apply; the next call, or the upkeep, rebuilds the table.
   */
  async replace(address: string, before: AddressRules, after: AddressRules): Promise<void> {
    await this.#lock.run('table', async () => {
      try {
        if (this.#isStale) return await this.#load()
        await this.#change(address, before, after)
      } catch (error) {
        this.#isStale = true
        await this.#load().catch((second) => {
          throw notApplied([error, second])
        })
      }
    })
  }

  /**
   * Removes the rules of a sandbox that has ended. After a failure, the next check of the table repairs it.
   */
  async forget({ address, egress }: Limited): Promise<void> {
    await this.#lock.run('table', async () => {
      try {
        await this.#change(address, egress, openRules)
      } catch {
        this.#isStale = true
      }
    })
  }

  async remove(): Promise<void> {
    await this.#nft(`table ${this.#table} {}\ndelete table ${this.#table}\n`)
    this.#applied = undefined
  }

  async #change(address: string, recorded: AddressRules, after: AddressRules): Promise<void> {
    const before = this.#applied ? (this.#applied.get(address) ?? openRules) : recorded
    const text = isDeepStrictEqual(before, after)
      ? ''
      : changes(this.#table, { address, egress: before }, { address, egress: after })
    if (text !== '') await this.#nft(text)
    if (isDeepStrictEqual(after, openRules)) this.#applied?.delete(address)
    else this.#applied?.set(address, after)
  }

  async #list(): Promise<ListedTable> {
    return readListedTable(await this.#run(['--stateless', 'list', 'table', ...this.#table.split(' ')]))
  }

  async #nft(input: string): Promise<void> {
    await this.#run(['-f', '-'], input)
  }

  async #run(args: readonly string[], input?: string): Promise<string> {
    if (this.#options.nft) return this.#options.nft(args, input)
    return (await runCommand('nft', args, input === undefined ? {} : { input })).stdout
  }
}

const notApplied = (causes: readonly unknown[]) =>
  new AppError(
    'unavailable',
    'The egress rules of the sandbox could not be applied, and it is not known which ones hold now. Try again; the log ' +
      'of the server has the cause.',
    {
      cause: new AggregateError(causes, 'nft failed, and so did loading the whole table'),
      retry: { should: true },
    },
  )
