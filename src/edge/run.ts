/** The edge's state for one run of a sandbox; everything is dropped when the run ends. */
import type { Agent } from 'node:http'
import type { Socket } from 'node:net'
import { envdPort } from '../contract/constants.ts'
import type { Route } from '../core/sandbox/network/routes.ts'
import { systemClock } from '../lib/clock.ts'
import { ChunkPacer } from '../lib/http-relay/chunk-pacer.ts'
import { UpstreamPool } from '../lib/http-relay/upstream-pool.ts'
import { letYoungFinish } from '../lib/requests-under-way.ts'
import type { EdgeAnswer } from './answers.ts'
import { Clients } from './clients.ts'
import { dial } from './dial.ts'
import { shakeHands } from './inner-tls.ts'

const maxIdleUpstreams = 64

export class Run {
  route: Route
  readonly agent: Agent
  readonly clients: Clients
  /** For both directions of all connections to the sandbox. */
  readonly pacer = new ChunkPacer(systemClock)
  #retryWaitsMs: readonly number[]
  #relayed = new Set<number>()
  #ended = new AbortController()
  #hasFlooded = false

  constructor(route: Route, limits: { connectionLimit: number; retryWaitsMs: readonly number[] }) {
    this.route = route
    this.clients = new Clients(limits.connectionLimit)
    this.#retryWaitsMs = limits.retryWaitsMs
    // The address is read from the route when dialling.
    const dial = (port: number) => this.dial(port, false)
    this.agent = new UpstreamPool({ dial, maxIdle: maxIdleUpstreams, clock: systemClock })
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

  /** Undefined for the agent, which always sees the name it is known by. */
  maskHost(port: number): string | undefined {
    return port === envdPort ? undefined : this.route.maskHost?.replace(/\$\{PORT\}/g, String(port))
  }

  /** True only the first time, so that a sandbox adds at most one such line to the log. */
  isFirstFlood(): boolean {
    const isFirst = !this.#hasFlooded
    this.#hasFlooded = true
    return isFirst
  }

  /** Waits for requests until they are that old. Older ones are long commands and streams, which may last for hours. */
  letFinish(withinMs: number): Promise<void> {
    return letYoungFinish(
      systemClock,
      withinMs,
      (time) => !this.#ended.signal.aborted && this.clients.hasNewerThan(time),
    )
  }

  /** Clients that wait for an answer get this one. */
  end(answerFor: (port: number) => EdgeAnswer | null): void {
    // Clients first: they should get this answer, not the failure of the connections behind them.
    this.clients.cutAll(answerFor)
    this.#ended.abort(new Error('the sandbox ended'))
    this.agent.destroy()
  }
}
