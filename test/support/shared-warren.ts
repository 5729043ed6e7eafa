/** The Warren that files of one isolation share: it starts with the first that joins, and again if it has died. */
import {
  type Isolation,
  type SharedServer,
  sharedServerVariable,
  startWarren,
  type Warren,
} from './warren.ts'

/**
 * Files make templates that they use once or twice: each would have a sandbox booted for a next time that does not come.
 * So the clients meet warm sandboxes where a boot is cheap; under gVisor the tests of the warm pool and of chaos do.
 */
const warmSandboxes: Record<Isolation, string> = { container: '1', gvisor: '0' }

export class SharedWarren {
  readonly #isolation: Isolation
  readonly #seat: number
  #warren: Promise<Warren> | undefined
  #closed = false

  constructor(isolation: Isolation, seat: number) {
    this.#isolation = isolation
    this.#seat = seat
  }

  /** What a file needs to join. Once the server is closed that is nothing, and the file starts one of its own. */
  async environment(): Promise<Record<string, string>> {
    if (this.#closed) return {}
    const settings = { WARREN_WARM_SANDBOXES: warmSandboxes[this.#isolation] }
    this.#warren ??= startWarren(this.#isolation, { seat: this.#seat, settings })
    const warren = await this.#warren.catch((error) => {
      this.#warren = undefined
      throw error
    })
    const alive = await warren.api('/health').then(
      ({ ok }) => ok,
      () => false,
    )
    if (!alive) {
      await warren.crash()
      this.#warren = undefined
      return this.environment()
    }
    const { isolation, url, adminToken, dataFolder, logFile } = warren
    const server: SharedServer = { isolation, url, adminToken, dataFolder, logFile }
    return { [sharedServerVariable]: JSON.stringify(server) }
  }

  async close(): Promise<void> {
    this.#closed = true
    await (await this.#warren)?.stop()
  }
}
