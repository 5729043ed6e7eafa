/** A sandbox's secrets follow from the server's seed and its id, so that none is ever stored. */
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

  /** What its agent wants of callers; null when it answers everyone. */
  agentOf({ sandboxID, options }: Pick<Sandbox, 'sandboxID' | 'options'>): string | null {
    return options.secure ? this.agent(sandboxID) : null
  }

  traffic(sandboxID: string): string {
    return this.#hmac(`sandbox-traffic-${sandboxID}`)
  }

  /** What traffic to its ports must show; null when they are open to everyone. */
  trafficOf({ sandboxID, options }: Pick<Sandbox, 'sandboxID' | 'options'>): string | null {
    return options.network?.allowPublicTraffic === false ? this.traffic(sandboxID) : null
  }

  /** The request may hold a password, so the hash needs the seed: without it nobody can try guesses. */
  requestHash(request: string): string {
    return this.#hmac(`request-${request}`)
  }

  #hmac(text: string): string {
    return createHmac('sha256', this.#seed).update(text).digest('hex')
  }
}
