/** Where the traffic of each running sandbox goes. The service writes it, the edge reads it; no I/O. */
import type { Endpoint } from '../../ports/driver.ts'

export type Route = {
  sandboxID: string
  runID: string
  endpoint(port: number): Endpoint
  /** What the agent demands of callers. */
  agentToken: string
  /** Set when ports other than the agent's are not open to everyone. */
  trafficToken: string | null
  /** What services see as their host, with `${PORT}` for the port; unset: what the client asked for. */
  maskHost?: string
  /** Where services speak TLS. */
  tlsPorts?: ReadonlySet<number>
}

type Network = { maskRequestHost?: unknown; httpsPorts?: unknown } | null

/** What a sandbox's network options, which were checked when they came, say about traffic to it. */
export function ingressOf(network: Network): Pick<Route, 'maskHost' | 'tlsPorts'> {
  const { maskRequestHost: mask, httpsPorts: ports } = network ?? {}
  return {
    ...(typeof mask === 'string' && mask !== '' && { maskHost: mask }),
    ...(Array.isArray(ports) && ports.length > 0 && { tlsPorts: new Set(ports as number[]) }),
  }
}

export class RouteTable {
  #routes = new Map<string, Route>()
  /** By sandbox: runs that stand still for now, and why. */
  #held = new Map<string, { runID: string; why: string }>()
  #onAdd = new Set<(route: Route) => void>()
  #onRemove = new Set<(route: Route) => void>()

  get(sandboxID: string): Route | undefined {
    return this.#routes.get(sandboxID)
  }

  /** If the run already has a route, only its target changes. The route of an earlier run is removed first. */
  set(route: Route): void {
    const before = this.#routes.get(route.sandboxID)
    if (before && before.runID !== route.runID) this.remove(route.sandboxID, before.runID)
    this.#routes.set(route.sandboxID, route)
    if (before?.runID === route.runID) return
    for (const watcher of this.#onAdd) watcher(route)
  }

  /** Removes the route of that run only; connections through it are then reset by whoever watches. */
  remove(sandboxID: string, runID: string): void {
    this.letGo(sandboxID, runID)
    const route = this.#routes.get(sandboxID)
    if (!route || route.runID !== runID) return
    this.#routes.delete(sandboxID)
    for (const watcher of this.#onRemove) watcher(route)
  }

  /** The run stands still: new requests get these words until `letGo`, and what is under way waits. */
  hold(sandboxID: string, runID: string, why: string): void {
    this.#held.set(sandboxID, { runID, why })
  }

  letGo(sandboxID: string, runID: string): void {
    if (this.#held.get(sandboxID)?.runID === runID) this.#held.delete(sandboxID)
  }

  /** Undefined: it does not stand still. */
  whyHeld({ sandboxID, runID }: Pick<Route, 'sandboxID' | 'runID'>): string | undefined {
    const held = this.#held.get(sandboxID)
    return held?.runID === runID ? held.why : undefined
  }

  /** Calls `watcher` for each route that goes; the returned function ends it. */
  onRemove(watcher: (route: Route) => void): () => void {
    this.#onRemove.add(watcher)
    return () => this.#onRemove.delete(watcher)
  }

  /** The same for each route that comes. */
  onAdd(watcher: (route: Route) => void): () => void {
    this.#onAdd.add(watcher)
    return () => this.#onAdd.delete(watcher)
  }

  values(): Iterable<Route> {
    return this.#routes.values()
  }
}
