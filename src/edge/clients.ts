/** Counts the clients of one sandbox against a limit, and finds all of them when the sandbox ends. */
import { envdPort } from '../contract/constants.ts'
import { systemClock } from '../lib/clock.ts'
import type { EdgeAnswer } from './answers.ts'

/**
 * Stops a client's request: with this answer if it has none yet, otherwise, or if the answer is null, by a
 * reset.
 */
export type Cut = (answer: EdgeAnswer | null) => void

export class Clients {
  readonly limit: number
  // Counted separately, so that visitors of a service cannot lock its owner out of the agent.
  #toAgent: Client[] = []
  #toPorts: Client[] = []

  constructor(limit: number) {
    this.limit = limit
  }

  get isEmpty(): boolean {
    return this.#toAgent.length === 0 && this.#toPorts.length === 0
  }

  /**
   * `cutAll` calls `cut` unless the client has left. Returns the function to leave, or null if the limit is
   * reached.
   */
  enter(port: number, cut: Cut): (() => void) | null {
    const clients = port === envdPort ? this.#toAgent : this.#toPorts
    if (clients.length >= this.limit) return null
    const client = { cut, port, since: systemClock.now(), index: clients.length }
    clients.push(client)
    return () => remove(clients, client)
  }

  hasNewerThan(time: number): boolean {
    const isNewer = ({ since }: Client) => since > time
    return this.#toAgent.some(isNewer) || this.#toPorts.some(isNewer)
  }

  cutAll(answerFor: (port: number) => EdgeAnswer | null): void {
    for (const { cut, port } of [...this.#toAgent, ...this.#toPorts]) cut(answerFor(port))
  }
}

type Client = { cut: Cut; port: number; since: number; index: number }

/**
 * The last client takes the place of the one that leaves. A Set would be simpler, but the tables that a busy
 * Set outgrows keep every client in them alive until a full collection: four times the memory under load.
 */
function remove(clients: Client[], client: Client): void {
  if (clients[client.index] !== client) return
  const last = clients.pop()!
  if (last === client) return
  clients[client.index] = last
  last.index = client.index
}
