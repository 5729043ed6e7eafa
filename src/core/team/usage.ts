/** Samples how many sandboxes each team runs and starts, at a fixed interval. */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { type TeamMetric, teamSampleEveryMs } from './metric.ts'
import type { Team } from './team.ts'
import type { TeamMetricStore } from './team-store.ts'

/** The metrics whose highest value a client can ask for. */
type TeamMetricName = 'concurrent_sandboxes' | 'sandbox_start_rate'

type TeamUsageSample = { at: number; concurrentSandboxes: number; sandboxStartRate: number }

/** In milliseconds, both bounds inclusive. `now` is the present by which they were chosen. */
export type UsagePeriod = { from: number; to: number; now: number }

export class TeamUsage {
  readonly #metrics: TeamMetricStore
  readonly #clock: Clock

  constructor(parts: { teamMetrics: TeamMetricStore; clock: Clock }) {
    this.#metrics = parts.teamMetrics
    this.#clock = parts.clock
  }

  /** Takes one sample of every team that runs sandboxes on this node. */
  async sample(): Promise<void> {
    const at = Math.floor(this.#clock.now() / teamSampleEveryMs) * teamSampleEveryMs
    const counts = await this.#metrics.count(at - teamSampleEveryMs)
    await this.#metrics.append(counts.map((count) => ({ ...count, at })))
  }

  /**
   * Counts the running sandboxes of each team on all nodes, by team ID. Teams without running sandboxes are
   * left out.
   */
  async runningCounts(): Promise<Record<string, number>> {
    const counts = await this.#metrics.countRunning()
    return Object.fromEntries(counts.map(({ teamID, count }) => [teamID, count]))
  }

  /**
   * Oldest first. Times without a sample had no sandboxes. A period that includes the present ends with a
   * sample of this moment, so that a sandbox is seen before the next sample is due.
   */
  async read({ teamID }: Team, { from, to, now: at }: UsagePeriod): Promise<TeamUsageSample[]> {
    if (from > to) throw new AppError('invalid_argument', 'start is after end: give an earlier start')
    const samples = await this.#metrics.range(teamID, from, to)
    if (at < from || at > to) return samples.map(usageOf)
    const present = await this.#metrics.countNow(teamID, at - teamSampleEveryMs)
    if (present.concurrentSandboxes > 0) samples.push({ teamID, at, ...present })
    return samples.map(usageOf)
  }

  /** Returns the sample with the highest value, or zero at the end of the period if there is none. */
  async highest(
    team: Team,
    name: TeamMetricName,
    period: UsagePeriod,
  ): Promise<{ at: number; value: number }> {
    const named = ({ concurrentSandboxes, sandboxStartRate }: TeamUsageSample) =>
      name === 'concurrent_sandboxes' ? concurrentSandboxes : sandboxStartRate
    const samples = await this.read(team, period)
    return samples
      .map((sample) => ({ at: sample.at, value: named(sample) }))
      .reduce((best, each) => (each.value > best.value ? each : best), { at: period.to, value: 0 })
  }
}

function usageOf({ at, concurrentSandboxes, startedSandboxes }: TeamMetric): TeamUsageSample {
  return { at, concurrentSandboxes, sandboxStartRate: startedSandboxes / (teamSampleEveryMs / 1000) }
}
