/** What the edge holds for one run of a sandbox; all of it goes when the run ends. */
import { Agent, type ClientRequestArgs } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { envdPort } from '../contract/constants.ts'
import type { Route } from '../core/sandbox/routes.ts'
import { dial } from './dial.ts'

/** Shorter than the five seconds after which common servers drop an idle connection. */
const idleUpstreamMs = 4_000
const mostIdleUpstreams = 64

export class Run {
  route: Route
  readonly agent: Agent
  readonly connectionLimit: number
  #retryWaitsMs: readonly number[]
  #relayed = new Set<number>()
  #ended = new AbortController()
  // Counted apart, so that visitors of a service cannot lock its owner out of the agent.
  #toAgent: Client[] = []
  #toPorts: Client[] = []

  constructor(route: Route, limits: { connectionLimit: number; retryWaitsMs: readonly number[] }) {
    this.route = route
    this.connectionLimit = limits.connectionLimit
    this.#retryWaitsMs = limits.retryWaitsMs
    this.agent = new PortAgent((port) => this.dial(port, false))
  }

  /**
   * Counts a client in; `cut` is called when the run ends before the client left. Returns how to leave, or
   * null when too many are in.
   */
  enter(port: number, cut: () => void): (() => void) | null {
    const clients = port === envdPort ? this.#toAgent : this.#toPorts
    if (clients.length >= this.connectionLimit) return null
    const client = { cut, place: clients.length }
    clients.push(client)
    return () => remove(clients, client)
  }

  dial(port: number, allowHalfOpen: boolean): Promise<Socket> {
    return dial({
      route: this.route,
      port,
      allowHalfOpen,
      relayed: this.#relayed,
      retryWaitsMs: this.#retryWaitsMs,
      signal: this.#ended.signal,
    })
  }

  end(): void {
    // Clients first: what they then hear is this, not the failure of the connections behind them.
    for (const { cut } of [...this.#toAgent, ...this.#toPorts]) cut()
    this.#ended.abort(new Error('the sandbox ended'))
    this.agent.destroy()
  }
}

type Client = { cut: () => void; place: number }

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

/** Pools connections by port; the address comes from the route at the moment of dialling. */
class PortAgent extends Agent {
  #open: (port: number) => Promise<Socket>

  constructor(open: (port: number) => Promise<Socket>) {
    super({ keepAlive: true, maxFreeSockets: mostIdleUpstreams, timeout: idleUpstreamMs })
    this.#open = open
  }

  override getName(options: ClientRequestArgs = {}): string {
    return String(options.port)
  }

  override createConnection(
    options: ClientRequestArgs,
    callback?: (error: Error | null, stream: Duplex) => void,
  ): undefined {
    const done = callback as (error: Error | null, stream?: Duplex) => void
    this.#open(Number(options.port)).then((socket) => done(null, socket), done)
  }
}
