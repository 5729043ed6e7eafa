/**
 * Decides which builds the warm pool has sandboxes of, how many of each, and in which order it boots them and
 * gives them up. It only calculates; the pool starts and stops sandboxes.
 */
import type { Clock } from '../../../lib/clock.ts'
import type { TemplateBuild } from '../../template/template.ts'
import type { WarmSandbox } from '../launch/warm-sandbox.ts'
import { Demand, inUseMs } from './demand.ts'

export type PooledBuild = {
  build: TemplateBuild
  demand: Demand
  uses: number
  /** The time of the last create. Infinite: the build stays in the pool whether it is used or not. */
  usedAt: number
  /** Ordered by waiting time, the longest first. */
  ready: WarmSandbox[]
  boots: Set<Promise<void>>
  bootMs: number
  /** Number of sandboxes that died while they waited, since the last create. */
  deaths: number
  /** Sandboxes of the build fail to start or die while they wait; the next create tries again. */
  failed: boolean
  /** Aborts the boots under way. */
  abort: AbortController
}

type PooledBuildsParts = {
  /** Minimum number of sandboxes for each build in use; 0 turns the pool off. */
  min: number
  /** Maximum memory allocated to all pooled sandboxes. */
  budgetMB: number
  /** The pool may exceed the budget while the machine really has the memory. */
  mayExceedBudget: boolean
  cpuCount: number
  clock: Clock
}

/** Maximum number of pooled sandboxes per CPU: the machine boots them within about half a minute. */
const maxPerCPU = 64
/** Shorter boots count as this long. */
const shortestBootMs = 100
/** Assumed duration of a boot until one was measured. */
const firstBootMs = 500
/**
 * While clients create sandboxes, the pool boots on a part of the CPUs, and each boot takes twice as long.
 */
export const cpuShareBesideCreates = 1 / 2
const bootsSlowerBesideCreates = 2
/** A build with more dead sandboxes than this is left alone until the next create. */
const maxDeaths = 3

export class PooledBuilds {
  readonly #parts: PooledBuildsParts
  readonly #max: number
  /** By build ID, in the order of their last use. */
  readonly #builds = new Map<string, PooledBuild>()

  constructor(parts: PooledBuildsParts) {
    this.#parts = parts
    this.#max = maxPerCPU * parts.cpuCount
  }

  /** Ordered by last use, the least recent first. */
  all(): PooledBuild[] {
    return [...this.#builds.values()]
  }

  find(buildID: string): PooledBuild | undefined {
    return this.#builds.get(buildID)
  }

  remove({ build }: PooledBuild): void {
    this.#builds.delete(build.buildID)
  }

  /** False if the pool never has sandboxes of this build. */
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
    // Averaged, because one slow boot among quick ones does not tell the pace.
    pooled.bootMs = (pooled.bootMs + Math.max(shortestBootMs, tookMs)) / 2
    pooled.ready.push(warm)
    if (pooled.ready.length >= this.#wanted(pooled)) pooled.demand.recordFull()
  }

  recordDeath(pooled: PooledBuild): void {
    pooled.deaths++
    pooled.failed ||= pooled.deaths > maxDeaths
  }

  /** Treats the build as if it had been used often until `usedAt`. */
  expect(build: TemplateBuild, usedAt: number): PooledBuild | undefined {
    const pooled = this.#use(build)
    if (pooled) Object.assign(pooled, { uses: this.#parts.min, usedAt })
    return pooled
  }

  /**
   * Returns a build that lacks its minimum, or else one that lacks the number of its busiest moment. The most
   * recently used one comes first.
   */
  nextToFill(): PooledBuild | undefined {
    const short = this.all()
      .reverse()
      .filter((one) => !one.failed && countOf(one) < this.#wanted(one) && this.#fits(one))
    return short.find((one) => countOf(one) < this.#parts.min) ?? short[0]
  }

  /** True if one more sandbox of this build fits the budget. */
  isWithinBudget({ build }: PooledBuild): boolean {
    return this.#promisedMB() + build.memoryMB <= this.#parts.budgetMB
  }

  isOverBudget(): boolean {
    return this.#promisedMB() > this.#parts.budgetMB
  }

  /** Takes one sandbox that is not wanted any more. */
  acquireSurplus(): WarmSandbox | undefined {
    for (const pooled of this.all()) {
      const wanted = this.#wanted(pooled)
      if (pooled.ready.length > wanted) return pooled.ready.pop()
      if (wanted === 0 && countOf(pooled) === 0) this.remove(pooled)
    }
    return undefined
  }

  /**
   * Takes a sandbox of another build to make room for the minimum of the build used last. Undefined if that
   * build has its minimum, or if no other build has more ready.
   */
  acquireForLast(): WarmSandbox | undefined {
    const last = this.all().at(-1)
    if (!last || last.failed || countOf(last) >= this.#minOf(last) || this.#fits(last)) return undefined
    const fullest = this.#fullest()
    return fullest && fullest.ready.length > countOf(last) ? fullest.ready.pop() : undefined
  }

  /** Takes up to `count` sandboxes, from the builds with the most ready ones first. */
  acquireMany(count: number): WarmSandbox[] {
    const acquired: WarmSandbox[] = []
    while (acquired.length < count) {
      const warm = this.#fullest()?.ready.pop()
      if (!warm) break
      acquired.push(warm)
    }
    return acquired
  }

  /** Limits the demand of each build to its present number of sandboxes, until creates ask for more. */
  lowerDemand(): void {
    for (const one of this.all()) one.demand.lowerTo(countOf(one))
  }

  #use(build: TemplateBuild): PooledBuild | undefined {
    const { min, budgetMB, mayExceedBudget } = this.#parts
    // A GPU that waits in the pool is one that nobody can use.
    if (build.gpuCount) return undefined
    if (min === 0 || (build.memoryMB > budgetMB && !mayExceedBudget)) return undefined
    const pooled = this.#builds.get(build.buildID) ?? newPooledBuild(build, this.#max)
    this.#builds.delete(build.buildID)
    this.#builds.set(build.buildID, pooled)
    return pooled
  }

  #wanted(pooled: PooledBuild): number {
    return Math.max(this.#minOf(pooled), pooled.demand.peak(this.#parts.clock.now()))
  }

  #minOf({ uses, usedAt }: PooledBuild): number {
    const { min, clock } = this.#parts
    return clock.now() - usedAt < inUseMs ? Math.min(min, uses) : 0
  }

  #fits(pooled: PooledBuild): boolean {
    const count = this.all().reduce((sum, one) => sum + countOf(one), 0)
    return count < this.#max && (this.#parts.mayExceedBudget || this.isWithinBudget(pooled))
  }

  /** The build with the most ready sandboxes; among equals, the least recently used. */
  #fullest(): PooledBuild | undefined {
    return this.all().reduce<PooledBuild | undefined>(
      (max, one) => (one.ready.length > (max?.ready.length ?? 0) ? one : max),
      undefined,
    )
  }

  #promisedMB(): number {
    return this.all().reduce((sum, one) => sum + countOf(one) * one.build.memoryMB, 0)
  }
}

const countOf = ({ ready, boots }: PooledBuild): number => ready.length + boots.size

function newPooledBuild(build: TemplateBuild, max: number): PooledBuild {
  return {
    build,
    demand: new Demand(max),
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
