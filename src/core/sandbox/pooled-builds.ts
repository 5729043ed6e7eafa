/**
 * Which builds the warm pool has sandboxes of, how many it should have of each, and in which order it makes them. It
 * knows numbers only; the pool starts and stops.
 */
import type { Clock } from '../../lib/clock.ts'
import type { TemplateBuild } from '../template/template.ts'
import { Demand } from './demand.ts'
import type { WarmSandbox } from './warm-sandbox.ts'

export type PooledBuild = {
  build: TemplateBuild
  demand: Demand
  uses: number
  /** When the last create came. Infinite: it is kept whether it is used or not. */
  usedAt: number
  /** The one that waits longest comes first. */
  ready: WarmSandbox[]
  boots: Set<Promise<void>>
  bootMs: number
  /** The last boot failed; the next create tries again. */
  failed: boolean
  /** Ends the boots that are under way. */
  abort: AbortController
}

export type PooledBuildsParts = {
  /** So many of each build that is in use; 0: none of any. */
  least: number
  /** All together may be promised so much memory. */
  budgetMB: number
  clock: Clock
}

/** A build that nobody used for so long is let go. */
const inUseMs = 60 * 60_000
/** Shorter boots count as this long, and so do those that were not measured yet. */
export const shortestBootMs = 500

export class PooledBuilds {
  readonly #parts: PooledBuildsParts
  /** By id, in the order of their last use. */
  readonly #builds = new Map<string, PooledBuild>()

  constructor(parts: PooledBuildsParts) {
    this.#parts = parts
  }

  /** The one that was used least lately comes first. */
  all(): PooledBuild[] {
    return [...this.#builds.values()]
  }

  find(buildID: string): PooledBuild | undefined {
    return this.#builds.get(buildID)
  }

  remove({ build }: PooledBuild): void {
    this.#builds.delete(build.buildID)
  }

  /** Undefined: the pool never has sandboxes of this build. */
  recordCreate(build: TemplateBuild): PooledBuild | undefined {
    const pooled = this.#use(build)
    if (!pooled) return undefined
    const now = this.#parts.clock.now()
    pooled.uses++
    pooled.usedAt = Math.max(pooled.usedAt, now)
    pooled.demand.record(now)
    pooled.failed = false
    return pooled
  }

  /** As if it had been used often until then. */
  expect(build: TemplateBuild, usedAt: number): PooledBuild | undefined {
    const pooled = this.#use(build)
    if (pooled) Object.assign(pooled, { uses: this.#parts.least, usedAt })
    return pooled
  }

  /** First what each has at least, then what its busiest moment took; the one used last before the others. */
  nextToFill(): PooledBuild | undefined {
    const short = this.all()
      .reverse()
      .filter((one) => !one.failed && countOf(one) < this.#wanted(one) && this.#fits(one))
    return short.find((one) => countOf(one) < this.#parts.least) ?? short[0]
  }

  /** One that is not wanted any more. */
  takeSurplus(): WarmSandbox | undefined {
    for (const pooled of this.all()) {
      const wanted = this.#wanted(pooled)
      if (pooled.ready.length > wanted) return pooled.ready.pop()
      if (wanted === 0 && countOf(pooled) === 0) this.remove(pooled)
    }
    return undefined
  }

  /** The build that was used last has none, because the others have all that may be had. */
  lacksFirst(): boolean {
    const last = this.all().at(-1)
    return last !== undefined && countOf(last) === 0 && !this.#fits(last)
  }

  #use(build: TemplateBuild): PooledBuild | undefined {
    const { least, budgetMB } = this.#parts
    if (least === 0 || build.memoryMB > budgetMB) return undefined
    const pooled = this.#builds.get(build.buildID) ?? newPooledBuild(build)
    this.#builds.delete(build.buildID)
    this.#builds.set(build.buildID, pooled)
    return pooled
  }

  #wanted({ demand, uses, usedAt, bootMs }: PooledBuild): number {
    const { least, clock } = this.#parts
    const now = clock.now()
    const leastNow = now - usedAt < inUseMs ? Math.min(least, uses) : 0
    // What is missing is there again after about twice the time of a boot.
    return Math.max(leastNow, demand.peak(now, 2 * bootMs))
  }

  #fits({ build }: PooledBuild): boolean {
    const used = this.all().reduce((sum, one) => sum + countOf(one) * one.build.memoryMB, 0)
    return used + build.memoryMB <= this.#parts.budgetMB
  }
}

const countOf = ({ ready, boots }: PooledBuild): number => ready.length + boots.size

function newPooledBuild(build: TemplateBuild): PooledBuild {
  return {
    ...{ build, demand: new Demand(), uses: 0, usedAt: 0, bootMs: shortestBootMs, failed: false },
    ...{ ready: [], boots: new Set(), abort: new AbortController() },
  }
}
