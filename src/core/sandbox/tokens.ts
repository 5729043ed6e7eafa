/** A sandbox's secrets follow from the server's seed and its id, so that none is ever stored. */
import { createHmac } from 'node:crypto'

export class SandboxTokens {
  readonly #seed: string

  constructor(seed: string) {
    this.#seed = seed
  }

  agent(sandboxID: string): string {
    return this.#hmac(sandboxID)
  }

  traffic(sandboxID: string): string {
    return this.#hmac(`sandbox-traffic-${sandboxID}`)
  }

  #hmac(text: string): string {
    return createHmac('sha256', this.#seed).update(text).digest('hex')
  }
}
