/** Follows the agents of all running sandboxes and keeps what they tell. Slow disks slow it, never a sandbox. */
import { delay } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import { type AgentPort, agentPort } from '../agent.ts'
import type { LogStore } from '../logs.ts'
import type { Route, RouteTable } from './routes.ts'

const retryAfterMs = 1000

export class LogCollector {
  readonly #parts: { agent: AgentPort; logs: LogStore; log: Log }
  readonly #following = new Map<string, { abort: AbortController; done: Promise<void> }>()
  readonly #unwatch: (() => void)[]

  constructor(parts: { agent: AgentPort; logs: LogStore; routes: RouteTable; log: Log }) {
    this.#parts = parts
    this.#unwatch = [
      parts.routes.onAdd((route) => this.#follow(route)),
      parts.routes.onRemove((route) => this.#following.get(route.runID)?.abort.abort()),
    ]
  }

  async close(): Promise<void> {
    for (const unwatch of this.#unwatch) unwatch()
    for (const { abort } of this.#following.values()) abort.abort()
    await Promise.all([...this.#following.values()].map(({ done }) => done))
  }

  #follow(route: Route): void {
    const abort = new AbortController()
    const done = this.#keepFollowing(route, abort.signal).finally(() => this.#following.delete(route.runID))
    this.#following.set(route.runID, { abort, done })
  }

  async #keepFollowing(route: Route, signal: AbortSignal): Promise<void> {
    const { agent, logs, log } = this.#parts
    const { sandboxID, agentToken } = route
    while (!signal.aborted) {
      try {
        const after = await logs.lastSequence(sandboxID)
        for await (const entries of agent.followLogs(route.endpoint(agentPort), agentToken, after, signal)) {
          await logs.append(sandboxID, entries)
        }
      } catch (error) {
        if (!signal.aborted) log.debug({ sandboxID, err: error }, 'following a log broke off')
      }
      await delay(retryAfterMs, signal).catch(() => {})
    }
  }
}
