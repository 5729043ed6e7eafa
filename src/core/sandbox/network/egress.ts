/**
 * Applies egress policies: address rules go to the driver, names to the gate. Every run of a sandbox passes
 * through here before anything of its owner runs in it.
 */
import { isDeepStrictEqual } from 'node:util'
import { addressRules, egressPolicy, type RequestedEgress } from '../../network-policy/egress-policy.ts'
import { checkIngress } from '../../network-policy/ingress-options.ts'
import { invalidNetwork } from '../../network-policy/invalid-network.ts'
import { type AgentPort, agentPort } from '../../ports/agent.ts'
import { canLimitEgress, type Driver, type DriverHandle, startOf } from '../../ports/driver.ts'
import { type AddressRules, type EgressGate, openRules } from '../../ports/egress.ts'
import type { SandboxInTurn } from '../row/sandbox-turns.ts'
import type { SandboxTokens } from '../row/tokens.ts'

const agentTrustsWithinMs = 30_000

export type SandboxEgressParts = {
  driver: Driver
  /** Undefined if this server has no gate; policies that need one are rejected then. */
  gate: EgressGate | undefined
  /** Signs the certificates that the gate shows for hosts with header rules. */
  authority: { certificate(): Promise<string> } | undefined
  /** Authorities that every sandbox trusts, in PEM form. */
  extraCA: string | undefined
  agent: AgentPort
  tokens: SandboxTokens
  /** Returns the IPv4 addresses of a host. */
  lookup: (name: string) => Promise<string[]>
  /** True if no policy may allow the address. */
  isClosed: (address: string) => boolean
}

/** The sandbox that a policy belongs to. */
type EgressOwner = { sandboxID: string; teamID: string; options: RequestedEgress }

export class SandboxEgress {
  readonly #parts: SandboxEgressParts
  /** The rules that the driver has confirmed to this process, by start of a sandbox. */
  readonly #proved = new Map<string, AddressRules>()

  constructor(parts: SandboxEgressParts) {
    this.#parts = parts
  }

  /** Throws if an option is not supported. */
  async check(requested: RequestedEgress): Promise<void> {
    const policy = egressPolicy(requested)
    if (requested.network) checkIngress(requested.network)
    if (this.#parts.gate === undefined && addressRules(policy).toGate !== 'none') {
      throw invalidNetwork(
        'Domains in network.allowOut, network.rules and network.egressProxy are not available on this server; use addresses and CIDR ranges',
      )
    }
    if (policy.proxy) await this.#checkProxy(policy.proxy.host)
  }

  rulesOf(requested: RequestedEgress): AddressRules {
    return addressRules(egressPolicy(requested))
  }

  /** Applies the egress policy in the row to the kernel and the gate. */
  async apply(row: SandboxInTurn): Promise<void> {
    const { handle, options } = row
    if (!handle) return
    await this.limit(handle, options)
    this.admit(row, handle)
  }

  /**
   * Changes the address rules of a running sandbox. Until the driver confirms the new rules, neither the old
   * nor the new ones count as applied.
   */
  async limit(handle: DriverHandle, requested: RequestedEgress): Promise<void> {
    const { driver } = this.#parts
    const rules = this.rulesOf(requested)
    this.#proved.delete(startOf(handle))
    if (canLimitEgress(driver)) await driver.limitEgress(handle, rules)
    else if (!isDeepStrictEqual(rules, openRules))
      throw invalidNetwork(`${driver.name} does not support egress policies`)
    this.noteRules(handle, rules)
  }

  /** Records that the driver has confirmed these rules for the sandbox. */
  noteRules(handle: DriverHandle, rules: AddressRules): void {
    this.#proved.set(startOf(handle), rules)
  }

  /** True if the driver has confirmed to this process that these options are applied. */
  isProved(handle: DriverHandle, requested: RequestedEgress): boolean {
    const proved = this.#proved.get(startOf(handle))
    return proved !== undefined && isDeepStrictEqual(proved, this.rulesOf(requested))
  }

  /** Tells the gate to which sandbox the connections of this address belong. */
  admit({ sandboxID, teamID, options }: EgressOwner, handle: DriverHandle): void {
    const policy = egressPolicy(options)
    const address = this.#addressOf(handle)
    const start = startOf(handle)
    // Also drops what an earlier start may have left at this address.
    this.#parts.gate?.admit(address, { sandboxID, teamID, start, policy })
    if (isDeepStrictEqual(addressRules(policy), openRules)) this.#parts.gate?.forget(address, start)
  }

  /**
   * Makes the sandbox trust the gate's authority. Call it after the hand-over. Contacts the agent only if
   * there are header rules.
   */
  async trust(
    { sandboxID, options: requested }: EgressOwner,
    handle: DriverHandle,
    signal: AbortSignal,
  ): Promise<void> {
    const { driver, agent, tokens, authority, extraCA = '' } = this.#parts
    if (!authority || egressPolicy(requested).headerRules.length === 0) return
    const endpoint = driver.endpoint(handle, agentPort)
    const caBundle = extraCA + (await authority.certificate())
    const options = { deadlineMs: agentTrustsWithinMs, currentToken: tokens.agent(sandboxID), signal }
    await agent.initialize(endpoint, { caBundle }, options)
  }

  /** Makes the gate reject all connections of this start. The kernel's rules stay as they are. */
  close(handle: DriverHandle): void {
    this.#parts.gate?.forget(this.#addressOf(handle), startOf(handle))
  }

  /** Drops all state of a start that has ended. */
  forget(handle: DriverHandle): void {
    this.close(handle)
    this.#proved.delete(startOf(handle))
  }

  #addressOf(handle: DriverHandle): string {
    return this.#parts.driver.endpoint(handle, 0).host
  }

  async #checkProxy(host: string): Promise<void> {
    const { lookup, isClosed } = this.#parts
    const found = await lookup(host).catch(() => [])
    if (found.length === 0) throw invalidNetwork(`egressProxy: ${host} has no IPv4 address`)
    if (found.some(isClosed))
      throw invalidNetwork(`egressProxy: ${host} is at an address of an internal network`)
  }
}
