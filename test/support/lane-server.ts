/** The Warren that the files of one lane share: it starts with the first that joins, and again if it has died. */
import {
  type Isolation,
  type SharedServer,
  sharedServerVariable,
  startWarren,
  type Warren,
} from './warren.ts'

export class LaneServer {
  readonly #isolation: Isolation
  #warren: Promise<Warren> | undefined
  #closed = false

  constructor(isolation: Isolation) {
    this.#isolation = isolation
  }

  /** For a file of this lane. Once the server is closed, the file starts one of its own. */
  async environment(): Promise<Record<string, string>> {
    const own = { WARREN_TEST_ISOLATION: this.#isolation }
    if (this.#closed) return own
    this.#warren ??= startWarren(this.#isolation)
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
    return { ...own, [sharedServerVariable]: JSON.stringify(server) }
  }

  async close(): Promise<void> {
    this.#closed = true
    await (await this.#warren)?.stop()
  }
}
