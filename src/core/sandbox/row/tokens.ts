/** A sandbox's secrets are computed from the server's seed and its ID, so that none is ever stored. */
import { createHmac } from 'node:crypto'
import type { Sandbox } from './sandbox.ts'

export class SandboxTokens {
  readonly #seed: string

  constructor(seed: string) {
    this.#seed = seed
  }

  agent(sandboxID: string): string {
    return this.#hmac(sandboxID)
  }

  /** The token that the agent requires of callers; null if it answers everyone. */
  agentOf({ sandboxID, options }: Pick<Sandbox, 'sandboxID' | 'options'>): string | null {
    return options.secure ? this.agent(sandboxID) : null
  }

  traffic(sandboxID: string): string {
    return this.#hmac(`sandbox-traffic-${sandboxID}`)
  }

  /** The token that requests to its ports must show; null if they are open to everyone. */
  trafficOf({ sandboxID, options }: Pick<Sandbox, 'sandboxID' | 'options'>): string | null {
    return options.network?.allowPublicTraffic === false ? this.traffic(sandboxID) : null
  }

  /**
   * The client ID by which a client older than access tokens shows that it may use the agent; undefined for
   * other sandboxes. With a port and the sandbox's ID it fits into the 63 characters of a DNS label.
   */
  hostOf({ sandboxID, options }: Pick<Sandbox, 'sandboxID' | 'options'>): string | undefined {
    return options.tokenInHost ? this.#hmac(`sandbox-host-${sandboxID}`).slice(0, 32) : undefined
  }

  /** The request may hold a password, so the hash needs the seed: without it nobody can try guesses. */
  requestHash(request: string): string {
    return this.#hmac(`request-${request}`)
  }

  #hmac(text: string): string {
    return createHmac('sha256', this.#seed).update(text).digest('hex')
  }
}
