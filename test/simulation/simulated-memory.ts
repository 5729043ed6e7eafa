/**
 * The memory of one machine, which outlives the process. While it is scarce, a few sandboxes take more and more of it, and all
 * others take a little and give it back: those must never notice.
 */
import type { FakeWorld } from '../../src/drivers/fake/fake-world.ts'
import type { SimulatedTime } from './simulated-time.ts'

const mebibyte = 1024 * 1024
/** Below this nothing starts; below half of it sandboxes that grow are frozen, and below a quarter one is paused or ends. */
export const minFreeMemoryMB = 1024
/** What sandboxes can get while it is scarce. */
const scarceMB = 900
const plentyMB = 1e6
const growEveryMs = 500
const [hogStepMB, mostHogMB, smallMB] = [60, 500, 9]

export class SimulatedMemory {
  readonly #world: FakeWorld
  readonly #time: SimulatedTime
  #grownAtMs = 0
  isScarce = false
  /** Sandboxes that ever took more than their share. */
  readonly hogs = new Set<string>()

  constructor(world: FakeWorld, time: SimulatedTime) {
    this.#world = world
    this.#time = time
  }

  /** In MiB. */
  get available(): number {
    if (!this.isScarce) return plentyMB
    const { sandboxes, memoryUses } = this.#world
    let used = 0
    for (const sandboxID of sandboxes.keys()) used += memoryUses.get(sandboxID) ?? 0
    return Math.floor(scarceMB - used / mebibyte)
  }

  /** From now on this number of sandboxes takes more and more memory. */
  becomeScarce(count: number, pick: number): void {
    const all = [...this.#world.sandboxes.keys()]
    const from = Math.floor(pick * all.length)
    for (const sandboxID of [...all.slice(from), ...all].slice(0, count)) this.hogs.add(sandboxID)
    this.isScarce = true
    this.#grownAtMs = this.#time.elapsedMs
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
        const after = this.hogs.has(sandboxID)
          ? Math.min(mostHogMB * mebibyte, before + hogStepMB * mebibyte)
          : before > 0
            ? 0
            : smallMB * mebibyte
        this.#world.memoryUses.set(sandboxID, after)
      }
    }
  }
}
