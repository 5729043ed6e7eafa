/** Counts the clients of one sandbox within a limit, so that all of them can be found when it ends. */
import { envdPort } from '../contract/constants.ts'
import type { EdgeAnswer } from './answers.ts'

/** Stops what a client does: with this answer if it has seen none yet, else, or where there is none, by a reset. */
export type Cut = (answer: EdgeAnswer | null) => void

export class Clients {
  readonly limit: number
  // Counted apart, so that visitors of a service cannot lock its owner out of the agent.
  #toAgent: Client[] = []
  #toPorts: Client[] = []

  constructor(limit: number) {
    this.limit = limit
  }

  get isEmpty(): boolean {
    return this.#toAgent.length === 0 && this.#toPorts.length === 0
  }

  /** `cut` is called by `cutAll` unless the client left. Returns how to leave, or null when too many are in. */
  enter(port: number, cut: Cut): (() => void) | null {
    const clients = port === envdPort ? this.#toAgent : this.#toPorts
    if (clients.length >= this.limit) return null
    const client = { cut, place: clients.length }
    clients.push(client)
    return () => remove(clients, client)
  }

  cutAll(answer: EdgeAnswer | null): void {
    for (const { cut } of [...this.#toAgent, ...this.#toPorts]) cut(answer)
  }
}

type Client = { cut: Cut; place: number }

/**
 * The last takes the place of the one that leaves. A Set would do, but V8 lets the tables a busy Set outgrows
 * keep every client in them alive until a full collection: four times the memory under load.
 */
function remove(clients: Client[], client: Client): void {
  if (clients[client.place] !== client) return
  const last = clients.pop()!
  if (last === client) return
  clients[client.place] = last
  last.place = client.place
}
