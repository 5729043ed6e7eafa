/** The target of each running sandbox's traffic. The service writes the table, the edge reads it; no I/O. */
import { createHash } from 'node:crypto'
import type { Endpoint } from '../../ports/driver.ts'

export type Route = {
  sandboxID: string
  runID: string
  teamID: string
  /** The start of the sandbox that the route leads to, by `startOf`. */
  start: string
  endpoint(port: number): Endpoint
  /** The token that the agent requires of callers. */
  agentToken: string
  /** Set if the ports other than the agent's are not open to everyone. */
  trafficToken: string | null
  /** The client ID that stands for the agent's token in host names; unset: none does. */
  hostToken?: string | undefined
  /** The host name that services see, with `${PORT}` for the port. Unset: the one of the client's request. */
  maskHost?: string
  /** The ports on which services speak TLS. */
  tlsPorts?: ReadonlySet<number>
}

type Network = { maskRequestHost?: unknown; httpsPorts?: unknown } | null

/** Reads the routing options from a sandbox's network options, which were checked when it was created. */
export function ingressOf(network: Network): Pick<Route, 'maskHost' | 'tlsPorts'> {
  const { maskRequestHost: mask, httpsPorts: ports } = network ?? {}
  return {
    ...(typeof mask === 'string' && mask !== '' && { maskHost: mask }),
    ...(Array.isArray(ports) && ports.length > 0 && { tlsPorts: new Set(ports as number[]) }),
  }
}

/** `departs`: the sandbox goes on, on another node, after the returned promise. */
type RemovedRouteWatcher = (route: Route, departs: boolean) => void | Promise<void>

export class RouteTable {
  #routes = new Map<string, Route>()
  /** By the hash of the agent's token, so that the time of a lookup says nothing about other tokens. */
  #ofToken = new Map<string, Route>()
  /** By sandbox: runs that are frozen for now, and why. */
  #frozen = new Map<string, { runID: string; why: string }>()
  #onAdd = new Set<(route: Route) => void>()
  #onRemove = new Set<RemovedRouteWatcher>()

  get(sandboxID: string): Route | undefined {
    return this.#routes.get(sandboxID)
  }

  /** The route of the sandbox whose agent has this token. It grants nothing: the agent checks the token itself. */
  ofToken(token: string): Route | undefined {
    return this.#ofToken.get(hashOf(token))
  }

  /** If the run already has a route, only its target changes. The route of an earlier run is removed first. */
  set(route: Route): void {
    const before = this.#routes.get(route.sandboxID)
    if (before && before.runID !== route.runID) this.remove(route.sandboxID, before.runID)
    if (before) this.#ofToken.delete(hashOf(before.agentToken))
    this.#routes.set(route.sandboxID, route)
    this.#ofToken.set(hashOf(route.agentToken), route)
    if (before?.runID === route.runID) return
    for (const watcher of this.#onAdd) watcher(route)
  }

  /** Removes the route of this run only. The watchers then reset connections through it. */
  remove(sandboxID: string, runID: string): void {
    void this.#remove(sandboxID, runID, false)
  }

  /** The same for the run of this start, whose address is about to lead to another sandbox. */
  removeStart(sandboxID: string, start: string): void {
    const route = this.#routes.get(sandboxID)
    if (route?.start === start) this.remove(sandboxID, route.runID)
  }

  /** The same for a run that moves to another node. Requests under way have a moment to finish; resolves after that. */
  async depart(sandboxID: string, runID: string): Promise<void> {
    await Promise.all(this.#remove(sandboxID, runID, true))
  }

  #remove(sandboxID: string, runID: string, departs: boolean): (void | Promise<void>)[] {
    this.letGo(sandboxID, runID)
    const route = this.#routes.get(sandboxID)
    if (!route || route.runID !== runID) return []
    this.#routes.delete(sandboxID)
    this.#ofToken.delete(hashOf(route.agentToken))
    return [...this.#onRemove].map((watcher) => watcher(route, departs))
  }

  /** Marks the run as frozen: new requests get this message until `letGo`, and requests under way wait. */
  markFrozen(sandboxID: string, runID: string, why: string): void {
    this.#frozen.set(sandboxID, { runID, why })
  }

  letGo(sandboxID: string, runID: string): void {
    if (this.#frozen.get(sandboxID)?.runID === runID) this.#frozen.delete(sandboxID)
  }

  /** Undefined if the run is not held. */
  whyFrozen({ sandboxID, runID }: Pick<Route, 'sandboxID' | 'runID'>): string | undefined {
    const frozen = this.#frozen.get(sandboxID)
    return frozen?.runID === runID ? frozen.why : undefined
  }

  /** Calls `watcher` for each removed route until the returned function is called. */
  onRemove(watcher: RemovedRouteWatcher): () => void {
    this.#onRemove.add(watcher)
    return () => this.#onRemove.delete(watcher)
  }

  /** Calls `watcher` for each new route until the returned function is called. */
  onAdd(watcher: (route: Route) => void): () => void {
    this.#onAdd.add(watcher)
    return () => this.#onAdd.delete(watcher)
  }

  values(): Iterable<Route> {
    return this.#routes.values()
  }
}

const hashOf = (token: string): string => createHash('sha256').update(token).digest('hex')
