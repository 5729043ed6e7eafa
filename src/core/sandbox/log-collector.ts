/**
 * Follows the agents of all running sandboxes and keeps what they tell, with what the control plane itself has
 * to tell of a sandbox. Slow disks slow it, never a sandbox.
 */
import { delay } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import { type AgentPort, agentPort } from '../agent.ts'
import type { LogEntry, LogStore } from '../logs.ts'
import type { Route, RouteTable } from './routes.ts'

const retryAfterMs = 1000
/** A sandbox that ends has told what it had to tell, but not all of it may be read: it is, for so long. */
const drainMs = 100

type Follower = { runID: string; isDraining: boolean; abort: AbortController; done: Promise<void> }

export class LogCollector {
  readonly #parts: { agent: AgentPort; logs: LogStore; log: Log }
  readonly #followers = new Map<string, Follower>()
  readonly #telling = new Set<Promise<void>>()
  readonly #unwatch: (() => void)[]

  constructor(parts: { agent: AgentPort; logs: LogStore; routes: RouteTable; log: Log }) {
    this.#parts = parts
    this.#unwatch = [
      parts.routes.onAdd((route) => this.#follow(route)),
      parts.routes.onRemove((route) => this.#drain(route)),
    ]
  }

  /** Adds an entry of the control plane's own, after everything that a run which is ending still tells. */
  tell(sandboxID: string, entry: LogEntry): void {
    const { logs, log } = this.#parts
    const follower = this.#followers.get(sandboxID)
    const work = Promise.resolve(follower?.isDraining ? follower.done : undefined)
      .then(() => logs.append(sandboxID, [{ sequence: 0, ...entry }]))
      .catch((error) => log.warn({ sandboxID, err: error }, 'a log could not be written'))
      .finally(() => this.#telling.delete(work))
    this.#telling.add(work)
  }

  async close(): Promise<void> {
    for (const unwatch of this.#unwatch) unwatch()
    for (const { abort } of this.#followers.values()) abort.abort()
    await Promise.all([...this.#followers.values()].map(({ done }) => done))
    await Promise.all(this.#telling)
  }

  #follow(route: Route): void {
    const { sandboxID, runID } = route
    const before = this.#followers.get(sandboxID)?.done
    const follower: Follower = {
      runID,
      isDraining: false,
      abort: new AbortController(),
      done: Promise.resolve(),
    }
    // Two at once would not know of each other's last entry.
    follower.done = Promise.resolve(before)
      .then(() => this.#keepFollowing(route, follower))
      .finally(() => {
        if (this.#followers.get(sandboxID) === follower) this.#followers.delete(sandboxID)
      })
    this.#followers.set(sandboxID, follower)
  }

  #drain({ sandboxID, runID }: Route): void {
    const follower = this.#followers.get(sandboxID)
    if (follower?.runID !== runID) return
    follower.isDraining = true
    void delay(drainMs).then(() => follower.abort.abort())
  }

  async #keepFollowing(route: Route, follower: Follower): Promise<void> {
    const { agent, logs, log } = this.#parts
    const { sandboxID, agentToken } = route
    const { signal } = follower.abort
    while (!signal.aborted) {
      try {
        const after = await logs.lastSequence(sandboxID)
        for await (const entries of agent.followLogs(route.endpoint(agentPort), agentToken, after, signal)) {
          await logs.append(sandboxID, entries)
        }
      } catch (error) {
        if (!signal.aborted) log.debug({ sandboxID, err: error }, 'following a log broke off')
      }
      if (follower.isDraining) return
      await delay(retryAfterMs, signal).catch(() => {})
    }
  }
}
