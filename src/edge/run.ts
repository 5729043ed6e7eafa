/** What the edge holds for one run of a sandbox; all of it goes when the run ends. */
import { Agent, type ClientRequestArgs } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { envdPort } from '../contract/constants.ts'
import type { Route } from '../core/sandbox/routes.ts'
import { Clients } from './clients.ts'
import { dial } from './dial.ts'
import { shakeHands } from './inner-tls.ts'

/** Shorter than the five seconds after which common servers drop an idle connection. */
const idleUpstreamMs = 4_000
const mostIdleUpstreams = 64

export class Run {
  route: Route
  readonly agent: Agent
  readonly clients: Clients
  #retryWaitsMs: readonly number[]
  #relayed = new Set<number>()
  #ended = new AbortController()

  constructor(route: Route, limits: { connectionLimit: number; retryWaitsMs: readonly number[] }) {
    this.route = route
    this.clients = new Clients(limits.connectionLimit)
    this.#retryWaitsMs = limits.retryWaitsMs
    this.agent = new PortAgent((port) => this.dial(port, false))
  }

  async dial(port: number, allowHalfOpen: boolean): Promise<Socket> {
    const { signal } = this.#ended
    const socket = await dial({
      route: this.route,
      port,
      allowHalfOpen,
      relayed: this.#relayed,
      retryWaitsMs: this.#retryWaitsMs,
      signal,
    })
    const speaksTls = port !== envdPort && this.route.tlsPorts?.has(port)
    return speaksTls ? shakeHands(socket, signal) : socket
  }

  /** The agent always sees the name it is known by. */
  maskHost(port: number): string | undefined {
    return port === envdPort ? undefined : this.route.maskHost?.replace(/\$\{PORT\}/g, String(port))
  }

  end(): void {
    // Clients first: what they then hear is this, not the failure of the connections behind them.
    this.clients.cutAll()
    this.#ended.abort(new Error('the sandbox ended'))
    this.agent.destroy()
  }
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
