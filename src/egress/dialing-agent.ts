/** Pools connections that the caller opens. */
import { Agent, type AgentOptions, type ClientRequestArgs } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** Shorter than the five seconds after which common servers drop an idle connection. */
const idleMs = 4_000

export class DialingAgent extends Agent {
  readonly #dial: (options: ClientRequestArgs) => Promise<Socket>

  constructor(dial: (options: ClientRequestArgs) => Promise<Socket>, options: AgentOptions) {
    super({ keepAlive: true, timeout: idleMs, ...options })
    this.#dial = dial
  }

  override createConnection(
    options: ClientRequestArgs,
    callback?: (error: Error | null, stream: Duplex) => void,
  ): undefined {
    const done = callback as (error: Error | null, stream?: Duplex) => void
    this.#dial(options).then((socket) => done(null, socket), done)
  }
}
