/** The last figures of the sandboxes in sight, for the small curves of the list. */
import { useEffect, useRef, useState } from 'preact/hooks'
import type { SandboxMetric } from '../../contract/rest/sandbox.ts'
import { now } from './live.ts'
import { ask } from './rest.ts'
import type { TeamSandbox } from './sandboxes.ts'

export type Curves = { cpu: number[]; memory: number[]; memTotal: number; lastAt: number }

/** As Warren samples. */
const everyMs = 5000
const maxPoints = 36
const maxPerRequest = 100
const firstAtOnce = 4

class MetricHistory {
  readonly #curves = new Map<string, Curves>()

  get(sandboxID: string): Curves | undefined {
    return this.#curves.get(sandboxID)
  }

  add(sandboxID: string, metrics: readonly SandboxMetric[]): void {
    const curves = this.#curves.get(sandboxID) ?? { cpu: [], memory: [], memTotal: 0, lastAt: 0 }
    for (const { timestampUnix, cpuUsedPct, memUsed, memTotal } of metrics) {
      if (timestampUnix <= curves.lastAt) continue
      curves.cpu = [...curves.cpu, cpuUsedPct].slice(-maxPoints)
      curves.memory = [...curves.memory, memUsed].slice(-maxPoints)
      curves.memTotal = memTotal
      curves.lastAt = timestampUnix
    }
    this.#curves.set(sandboxID, curves)
  }
}

/** Reads the curves of the running sandboxes in sight: the last minutes once, and then one figure at a time. */
export function useMetricHistory(inSight: readonly TeamSandbox[]): MetricHistory {
  const history = useRef(new MetricHistory()).current
  const rows = useRef(inSight)
  rows.current = inSight
  const [, draw] = useState(0)
  const running = inSight.filter(({ state }) => state === 'running')
  const fresh = running.some(({ sandboxID }) => !history.get(sandboxID))
  useEffect(() => {
    if (!fresh) return
    const stopped = new AbortController()
    const timer = setTimeout(() => {
      readPast(rows.current, history, stopped.signal)
        .then(() => draw((count) => count + 1))
        .catch(() => {})
    }, 200)
    return () => {
      clearTimeout(timer)
      stopped.abort()
    }
  }, [fresh, running[0]?.sandboxID])
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.hidden) return
      readLatest(rows.current, history)
        .then(() => draw((count) => count + 1))
        // The next round tries again, and the list itself tells when Warren is gone.
        .catch(() => {})
    }, everyMs)
    return () => clearInterval(timer)
  }, [])
  return history
}

async function readPast(
  rows: readonly TeamSandbox[],
  history: MetricHistory,
  signal: AbortSignal,
): Promise<void> {
  const start = Math.floor((now() - maxPoints * everyMs) / 1000)
  const waiting = rows.filter(({ sandboxID, state }) => state === 'running' && !history.get(sandboxID))
  const loadNext = async () => {
    for (let row = waiting.shift(); row; row = waiting.shift()) {
      const { sandboxID, team } = row
      const metrics = await ask<SandboxMetric[]>(`/sandboxes/${sandboxID}/metrics?start=${start}`, {
        team,
        signal,
      })
      history.add(sandboxID, metrics)
    }
  }
  await Promise.all(Array.from({ length: firstAtOnce }, loadNext))
}

async function readLatest(rows: readonly TeamSandbox[], history: MetricHistory): Promise<void> {
  const byTeam = new Map<string, string[]>()
  for (const { sandboxID, team, state } of rows) {
    if (state === 'running') byTeam.set(team, [...(byTeam.get(team) ?? []), sandboxID])
  }
  for (const [team, all] of byTeam) {
    const ids = all.slice(0, maxPerRequest)
    const { sandboxes } = await ask<{ sandboxes: Record<string, SandboxMetric> }>(
      `/sandboxes/metrics?sandbox_ids=${ids.join(',')}`,
      { team },
    )
    for (const [sandboxID, metric] of Object.entries(sandboxes)) history.add(sandboxID, [metric])
  }
}
