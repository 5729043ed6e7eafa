/**
 * Which builds the warm pool has sandboxes of, how many it should have of each, and in which order it makes them and
 * lets them go. It knows numbers only; the pool starts and stops.
 */
import type { Clock } from '../../../lib/clock.ts'
import type { TemplateBuild } from '../../template/template.ts'
import type { WarmSandbox } from '../launch/warm-sandbox.ts'
import { Demand, inUseMs } from './demand.ts'

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
  /** So many died while they waited since the last create. */
  deaths: number
  /** Its sandboxes do not start or do not last; the next create tries again. */
  failed: boolean
  /** Ends the boots that are under way. */
  abort: AbortController
}

export type PooledBuildsParts = {
  /** So many of each build that is in use; 0: none of any. */
  least: number
  /** All together may be promised so much memory. */
  budgetMB: number
  /** Whether there may be more than that, where the machine has the memory in truth. */
  mayExceedBudget: boolean
  cpuCount: number
  clock: Clock
}

/** All together are no more than so many for each CPU: the machine boots them within half a minute or so. */
const mostPerCPU = 64
/** Shorter boots count as this long. */
const shortestBootMs = 100
/** As long as none was measured. */
const firstBootMs = 500
/** Beside creates the pool boots on a part of the CPUs, and a boot takes twice as long as alone. */
export const cpuShareBesideCreates = 1 / 2
const bootsSlowerBesideCreates = 2
/** A build of which more die while they wait is left alone until the next create. */
const mostDeaths = 3

export class PooledBuilds {
  readonly #parts: PooledBuildsParts
  readonly #most: number
  /** By id, in the order of their last use. */
  readonly #builds = new Map<string, PooledBuild>()

  constructor(parts: PooledBuildsParts) {
    this.#parts = parts
    this.#most = mostPerCPU * parts.cpuCount
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

  /** False: the pool never has sandboxes of this build. */
  recordCreate(build: TemplateBuild): boolean {
    const pooled = this.#use(build)
    if (!pooled) return false
    const { cpuCount, clock } = this.#parts
    const now = clock.now()
    pooled.uses++
    pooled.usedAt = Math.max(pooled.usedAt, now)
    const refillMs = (bootsSlowerBesideCreates * pooled.bootMs) / (cpuShareBesideCreates * cpuCount)
    pooled.demand.record(now, refillMs)
    pooled.failed = false
    pooled.deaths = 0
    return true
  }

  recordBoot(pooled: PooledBuild, warm: WarmSandbox, tookMs: number): void {
    // One slow boot among quick ones does not tell the pace.
    pooled.bootMs = (pooled.bootMs + Math.max(shortestBootMs, tookMs)) / 2
    pooled.ready.push(warm)
    if (pooled.ready.length >= this.#wanted(pooled)) pooled.demand.recordFull()
  }

  recordDeath(pooled: PooledBuild): void {
    pooled.deaths++
    pooled.failed ||= pooled.deaths > mostDeaths
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

  /** Whether one more of this build stays within what all together may be promised. */
  isWithinBudget({ build }: PooledBuild): boolean {
    return this.#promisedMB() + build.memoryMB <= this.#parts.budgetMB
  }

  isOverBudget(): boolean {
    return this.#promisedMB() > this.#parts.budgetMB
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

  /**
   * One of another build that makes room for what the build used last has at least. Undefined: that has it, or no other
   * has more ready.
   */
  takeForLast(): WarmSandbox | undefined {
    const last = this.all().at(-1)
    if (!last || last.failed || countOf(last) >= this.#leastOf(last) || this.#fits(last)) return undefined
    const fullest = this.#fullest()
    return fullest && fullest.ready.length > countOf(last) ? fullest.ready.pop() : undefined
  }

  /** Up to so many, of those builds first that have the most ready. */
  takeMany(count: number): WarmSandbox[] {
    const taken: WarmSandbox[] = []
    while (taken.length < count) {
      const warm = this.#fullest()?.ready.pop()
      if (!warm) break
      taken.push(warm)
    }
    return taken
  }

  /** What there was beyond what is there now is not wanted before creates ask for it again. */
  lowerDemand(): void {
    for (const one of this.all()) one.demand.lowerTo(countOf(one))
  }

  #use(build: TemplateBuild): PooledBuild | undefined {
    const { least, budgetMB, mayExceedBudget } = this.#parts
    // A GPU that waits in the pool is one that nobody can use.
    if (build.gpuCount) return undefined
    if (least === 0 || (build.memoryMB > budgetMB && !mayExceedBudget)) return undefined
    const pooled = this.#builds.get(build.buildID) ?? newPooledBuild(build, this.#most)
    this.#builds.delete(build.buildID)
    this.#builds.set(build.buildID, pooled)
    return pooled
  }

  #wanted(pooled: PooledBuild): number {
    return Math.max(this.#leastOf(pooled), pooled.demand.peak(this.#parts.clock.now()))
  }

  #leastOf({ uses, usedAt }: PooledBuild): number {
    const { least, clock } = this.#parts
    return clock.now() - usedAt < inUseMs ? Math.min(least, uses) : 0
  }

  #fits(pooled: PooledBuild): boolean {
    const count = this.all().reduce((sum, one) => sum + countOf(one), 0)
    return count < this.#most && (this.#parts.mayExceedBudget || this.isWithinBudget(pooled))
  }

  /** Of several the one that was used least lately. */
  #fullest(): PooledBuild | undefined {
    return this.all().reduce<PooledBuild | undefined>(
      (most, one) => (one.ready.length > (most?.ready.length ?? 0) ? one : most),
      undefined,
    )
  }

  #promisedMB(): number {
    return this.all().reduce((sum, one) => sum + countOf(one) * one.build.memoryMB, 0)
  }
}

const countOf = ({ ready, boots }: PooledBuild): number => ready.length + boots.size

function newPooledBuild(build: TemplateBuild, most: number): PooledBuild {
  return {
    build,
    demand: new Demand(most),
    uses: 0,
    usedAt: 0,
    bootMs: firstBootMs,
    deaths: 0,
    failed: false,
    ready: [],
    boots: new Set(),
    abort: new AbortController(),
  }
}
