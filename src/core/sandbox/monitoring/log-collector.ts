/**
 * Follows the agents of all running sandboxes and stores their log entries, together with the control plane's
 * own entries. A slow disk slows down the collector, never a sandbox.
 */
import { errorText, isAppError } from '../../../lib/app-error.ts'
import { type Clock, sleep } from '../../../lib/clock.ts'
import type { Log } from '../../../lib/log.ts'
import { type AgentPort, agentPort } from '../../ports/agent.ts'
import type { LogEntry, LogStore } from '../../ports/logs.ts'
import type { Route, RouteTable } from '../network/routes.ts'
import { logCutEntry } from '../row/life-entries.ts'

const firstRetryMs = 1000
const longestRetryMs = 10_000
/**
 * Somebody inside replaced an agent that violates the protocol, so the collector retries it at growing
 * intervals.
 */
const longestPunishmentMs = 5 * 60_000
/** A failure after this time without one counts as the first. */
const forgivenAfterMs = 60_000
/** How long the collector reads on after a sandbox has ended, because some of its entries may be unread. */
const drainMs = 100

type Follower = { runID: string; isDraining: boolean; abort: AbortController; done: Promise<void> }

type LogCollectorParts = {
  agent: AgentPort
  logs: LogStore
  routes: RouteTable
  log: Log
  clock: Clock
}

export class LogCollector {
  readonly #parts: LogCollectorParts
  readonly #followers = new Map<string, Follower>()
  readonly #appending = new Set<Promise<void>>()
  readonly #unwatch: (() => void)[]

  constructor(parts: LogCollectorParts) {
    this.#parts = parts
    this.#unwatch = [
      parts.routes.onAdd((route) => this.#follow(route)),
      parts.routes.onRemove((route) => this.#drain(route)),
    ]
  }

  /** Adds an entry of the control plane, after the last entries of a run that is ending. */
  append(sandboxID: string, entry: LogEntry): void {
    const { logs, log } = this.#parts
    const follower = this.#followers.get(sandboxID)
    const work = Promise.resolve(follower?.isDraining ? follower.done : undefined)
      .then(() => logs.append(sandboxID, [{ sequence: 0, ...entry }]))
      .catch((error) => log.warn({ sandboxID, err: error }, 'a log could not be written'))
      .finally(() => this.#appending.delete(work))
    this.#appending.add(work)
  }

  async close(): Promise<void> {
    for (const unwatch of this.#unwatch) unwatch()
    for (const { abort } of this.#followers.values()) abort.abort()
    await Promise.all([...this.#followers.values()].map(({ done }) => done))
    await Promise.all(this.#appending)
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
    // Two followers at once would not know of each other's last entry.
    follower.done = Promise.resolve(before)
      .then(() => this.#followUntilAborted(route, follower))
      .finally(() => {
        if (this.#followers.get(sandboxID) === follower) this.#followers.delete(sandboxID)
      })
    this.#followers.set(sandboxID, follower)
  }

  #drain({ sandboxID, runID }: Route): void {
    const follower = this.#followers.get(sandboxID)
    if (follower?.runID !== runID) return
    follower.isDraining = true
    void sleep(this.#parts.clock, drainMs).then(() => follower.abort.abort())
  }

  async #followUntilAborted(route: Route, follower: Follower): Promise<void> {
    const { clock } = this.#parts
    const { signal } = follower.abort
    let retryMs = firstRetryMs
    let isReported = false
    while (!signal.aborted) {
      const since = clock.now()
      const failure = await this.#followOnce(route, signal)
      if (follower.isDraining || signal.aborted) return
      const isForgiven = clock.now() - since > forgivenAfterMs
      const hasBrokenRules = isAppError(failure, 'internal')
      if (hasBrokenRules && !isReported) this.#reportCut(route, failure)
      isReported ||= hasBrokenRules
      retryMs = isForgiven ? firstRetryMs : retryMs
      await sleep(clock, retryMs, signal).catch(() => {})
      retryMs = Math.min(
        2 * retryMs,
        hasBrokenRules ? longestPunishmentMs : Math.max(retryMs, longestRetryMs),
      )
    }
  }

  /** Resolves with the reason why it ended. */
  async #followOnce({ sandboxID, agentToken, endpoint }: Route, signal: AbortSignal): Promise<unknown> {
    const { agent, logs, log } = this.#parts
    try {
      const after = await logs.lastSequence(sandboxID)
      for await (const entries of agent.followLogs(endpoint(agentPort), agentToken, after, signal)) {
        await logs.append(sandboxID, entries)
      }
      return undefined
    } catch (error) {
      if (!signal.aborted) log.debug({ sandboxID, err: error }, 'following a log broke off')
      return error
    }
  }

  /** Logged once per run: a sandbox that floods the server must not flood its log. */
  #reportCut({ sandboxID }: Route, failure: unknown): void {
    const { clock, log } = this.#parts
    const why = errorText(failure)
    log.warn(
      { sandboxID, why },
      'reading the log of a sandbox was stopped: something inside answers in place of its agent',
    )
    this.append(sandboxID, logCutEntry(clock.now(), why))
  }
}
