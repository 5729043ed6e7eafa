/** Finds out whether PostgreSQL answers, while somebody waits for it. */
import type { NetConnectOpts } from 'node:net'
import { Client } from 'pg'
import { systemClock } from '../../lib/clock.ts'
import { isProcessThere, LivenessProbe } from '../../lib/liveness-probe.ts'

/**
 * The request for TLS, which PostgreSQL answers with one byte before it asks who connects. It logs nothing if the client
 * leaves then.
 */
const tlsRequest = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])
const lookAgainMs = 1000

export class ServerProbe {
  readonly #url: string
  readonly #probe = new LivenessProbe({ isThere: () => this.#look(), clock: systemClock })
  #isSilent = false

  constructor(url: string) {
    this.#url = url
  }

  /**
   * Throws while the server is known not to answer. Otherwise each request would wait for that again, several times where it
   * is repeated.
   */
  requireAnswers(): void {
    if (this.#isSilent) throw new Error('the server is silent')
  }

  /** Calls `giveUp` if the server does not answer any more, until the returned function is called. */
  watch(giveUp: (error: Error) => void): () => void {
    return this.#probe.watch({ destroy: giveUp })
  }

  async #look(): Promise<boolean> {
    const isThere = await isProcessThere(this.#target(), tlsRequest)
    if (!isThere && !this.#isSilent) {
      this.#isSilent = true
      this.#lookAgain()
    }
    return isThere
  }

  #lookAgain(): void {
    systemClock.after(lookAgainMs, async () => {
      if (await isProcessThere(this.#target(), tlsRequest)) this.#isSilent = false
      else this.#lookAgain()
    })
  }

  #target(): NetConnectOpts {
    const { host, port } = new Client({ connectionString: this.#url })
    // Otherwise the host is the folder of a Unix socket of this machine.
    return host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port }
  }
}
