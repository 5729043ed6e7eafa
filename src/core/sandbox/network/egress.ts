/**
 * Holds sandboxes to what may leave them: address rules go to the driver, names to the gate. Every life of a
 * sandbox comes through here before anything of its owner's runs in it.
 */
import { isDeepStrictEqual } from 'node:util'
import { addressRules, egressPolicy, type RequestedEgress } from '../../network-policy/egress-policy.ts'
import { checkIngress } from '../../network-policy/ingress-options.ts'
import { invalidNetwork } from '../../network-policy/invalid-network.ts'
import { type AgentPort, agentPort } from '../../ports/agent.ts'
import { canLimitEgress, type Driver, type DriverHandle } from '../../ports/driver.ts'
import { type AddressRules, type EgressGate, openRules } from '../../ports/egress.ts'
import type { SandboxInTurn } from '../row/sandbox-turns.ts'
import type { SandboxTokens } from '../row/tokens.ts'

const agentTrustsWithinMs = 30_000

export type SandboxEgressParts = {
  driver: Driver
  /** Undefined: nothing reads names here, and whoever asks for it is refused. */
  gate: EgressGate | undefined
  /** What the gate shows for hosts with header rules is signed by it. */
  authority: { certificate(): Promise<string> } | undefined
  /** Authorities that every sandbox trusts, in PEM form. */
  extraCA: string | undefined
  agent: AgentPort
  tokens: SandboxTokens
  /** The IPv4 addresses of a host. */
  lookup: (name: string) => Promise<string[]>
  /** Whether no policy leads there. */
  isClosed: (address: string) => boolean
}

/** Whose policy it is. */
export type EgressOwner = { sandboxID: string; teamID: string; options: RequestedEgress }

export class SandboxEgress {
  readonly #parts: SandboxEgressParts
  /** The rules that hold, by the life of a sandbox, as the driver has told this process. */
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

  /** Makes the kernel and the gate hold a running sandbox to what its row says. */
  async apply(row: SandboxInTurn): Promise<void> {
    const { handle, options } = row
    if (!handle) return
    await this.limit(handle, options)
    this.admit(row, handle)
  }

  /**
   * Changes what may leave a sandbox that runs. Until the driver has said that the new rules hold, nothing is known of the
   * rules that do: neither the old nor the new ones count as proved.
   */
  async limit(handle: DriverHandle, requested: RequestedEgress): Promise<void> {
    const { driver } = this.#parts
    const rules = this.rulesOf(requested)
    this.#proved.delete(keyOf(handle))
    if (canLimitEgress(driver)) await driver.limitEgress(handle, rules)
    else if (!isDeepStrictEqual(rules, openRules))
      throw invalidNetwork(`${driver.name} cannot limit what leaves a sandbox`)
    this.noteRules(handle, rules)
  }

  /** The driver has said that these rules hold for the sandbox. */
  noteRules(handle: DriverHandle, rules: AddressRules): void {
    this.#proved.set(keyOf(handle), rules)
  }

  /** Whether this process knows that the sandbox is held to these options. */
  isProved(handle: DriverHandle, requested: RequestedEgress): boolean {
    const proved = this.#proved.get(keyOf(handle))
    return proved !== undefined && isDeepStrictEqual(proved, this.rulesOf(requested))
  }

  /** From now on the gate knows whose connections these are. */
  admit({ sandboxID, teamID, options }: EgressOwner, handle: DriverHandle): void {
    const policy = egressPolicy(options)
    const address = this.#addressOf(handle)
    if (isDeepStrictEqual(addressRules(policy), openRules)) this.#parts.gate?.forget(address)
    else this.#parts.gate?.admit(address, { sandboxID, teamID, policy })
  }

  /** Once the agent knows who it is. Takes time only where there are header rules. */
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

  /** The gate lets nothing of it through any more. The rules of the kernel stay as they are. */
  close(handle: DriverHandle): void {
    this.#parts.gate?.forget(this.#addressOf(handle))
  }

  /** The sandbox is gone, and what was known of its rules with it. */
  forget(handle: DriverHandle): void {
    this.close(handle)
    this.#proved.delete(keyOf(handle))
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

/** Each start of a sandbox has a handle of its own. */
const keyOf = ({ data }: DriverHandle): string => JSON.stringify(data)
