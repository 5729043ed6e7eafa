/**
 * The memory of one machine, which outlives the process. While it is scarce, a few sandboxes, or all of one team, take more and
 * more of it. One sandbox of each other team takes nearly the fair share of its team, and all others take a little and give it
 * back. Teams below their fair share must never notice.
 */
import type { FakeWorld } from '../../src/drivers/fake/fake-world.ts'
import type { SimulatedTime } from './simulated-time.ts'

const mebibyte = 1024 * 1024
/** Below this nothing starts; below half of it sandboxes that grow are frozen, and below a quarter one is paused or ends. */
export const minFreeMemoryMB = 1024
/** What sandboxes can get while it is scarce. */
const scarceMB = 2500
const plentyMB = 1e6
const growEveryMs = 500
const hogStepMB = 150
const maxHogMB = 2000
const smallMB = 9
/** Of the largest sandbox of a team below its share: as much as it may take where three teams divide the memory. */
const largeStepMB = 100
const maxLargeMB = 400
/** A team that was above its fair share may be touched for as long afterwards: acts that were decided take a while. */
const afterwardsMs = 30_000

export class SimulatedMemory {
  readonly #world: FakeWorld
  readonly #time: SimulatedTime
  #grownAtMs = 0
  isScarce = false
  /** Sandboxes that take more and more. */
  readonly hogs = new Set<string>()
  readonly #large = new Set<string>()
  readonly #teamOf: (sandboxID: string) => string | undefined
  /** When each team was last above its fair share. */
  readonly #aboveAtMs = new Map<string, number>()

  constructor(world: FakeWorld, time: SimulatedTime, teamOf: (sandboxID: string) => string | undefined) {
    this.#world = world
    this.#time = time
    this.#teamOf = teamOf
  }

  /** True if the sandbox may be frozen, paused or ended because memory is scarce. */
  mayTouch(sandboxID: string): boolean {
    this.#noteTeams()
    const aboveAtMs = this.#aboveAtMs.get(this.#teamOf(sandboxID) ?? '')
    return aboveAtMs !== undefined && this.#time.elapsedMs - aboveAtMs <= afterwardsMs
  }

  /** True if its team was ever above its fair share: a pause that was decided then may reach the database much later. */
  mayHaveTouched(sandboxID: string): boolean {
    return this.mayTouch(sandboxID) || this.#aboveAtMs.has(this.#teamOf(sandboxID) ?? '')
  }

  /** In MiB. */
  get available(): number {
    if (!this.isScarce) return plentyMB
    const { sandboxes, memoryUses } = this.#world
    let used = 0
    for (const sandboxID of sandboxes.keys()) used += memoryUses.get(sandboxID) ?? 0
    return Math.floor(scarceMB - used / mebibyte)
  }

  /** From now on this number of sandboxes, or all of one team, take more and more memory. */
  becomeScarce(count: number | 'a team', pick: number): void {
    const all = [...this.#world.sandboxes.keys()]
    const from = Math.floor(pick * all.length)
    const some = [...all.slice(from), ...all]
    const team = some[0] && this.#teamOf(some[0])
    const hogs = count === 'a team' ? all.filter((id) => this.#teamOf(id) === team) : some.slice(0, count)
    for (const sandboxID of hogs) this.hogs.add(sandboxID)
    this.#chooseLarge(all)
    this.isScarce = true
    this.#grownAtMs = this.#time.elapsedMs
  }

  /** One sandbox of each team that has no hog. */
  #chooseLarge(all: readonly string[]): void {
    this.#large.clear()
    const chosen = new Set([...this.hogs].map(this.#teamOf))
    for (const sandboxID of all) {
      const team = this.#teamOf(sandboxID)
      if (team === undefined || chosen.has(team)) continue
      chosen.add(team)
      this.#large.add(sandboxID)
    }
  }

  beEnough(): void {
    this.isScarce = false
    this.#world.memoryUses.clear()
  }

  /** Each sandbox that runs and is not frozen takes memory for the time since the last call. */
  grow(): void {
    if (!this.isScarce) return
    for (; this.#time.elapsedMs - this.#grownAtMs >= growEveryMs; this.#grownAtMs += growEveryMs) {
      for (const [sandboxID, { running, frozen }] of this.#world.sandboxes) {
        if (!running || frozen) continue
        const before = this.#world.memoryUses.get(sandboxID) ?? 0
        this.#world.memoryUses.set(sandboxID, this.#grown(sandboxID, before))
      }
      this.#noteTeams()
    }
  }

  /** What it uses half a second later. */
  #grown(sandboxID: string, before: number): number {
    if (this.hogs.has(sandboxID)) return Math.min(maxHogMB * mebibyte, before + hogStepMB * mebibyte)
    if (this.#large.has(sandboxID)) return Math.min(maxLargeMB * mebibyte, before + largeStepMB * mebibyte)
    return before > 0 ? 0 : smallMB * mebibyte
  }

  /** An equal part of all memory but what must stay free, for each team that has a sandbox here. */
  #noteTeams(): void {
    if (!this.isScarce) return
    const used = new Map<string, number>()
    for (const sandboxID of this.#world.sandboxes.keys()) {
      const team = this.#teamOf(sandboxID)
      if (team === undefined) continue
      used.set(team, (used.get(team) ?? 0) + (this.#world.memoryUses.get(sandboxID) ?? 0))
    }
    const fair = ((scarceMB - minFreeMemoryMB) * mebibyte) / used.size
    // A team that is alone has to give back for its own sake.
    const isAlone = used.size === 1
    for (const [team, bytes] of used)
      if (isAlone || bytes > fair) this.#aboveAtMs.set(team, this.#time.elapsedMs)
  }
}
