/** How fast the disks of sandboxes grow, out of one measurement after the other. */
import type { DiskUse } from '../../ports/driver.ts'

/** What a disk grew by counts half after this time. */
const halfLifeMs = 10_000

type Growth = {
  /** With what is still on its way to the disk, in bytes. */
  size: number
  /** Bytes that it grew by, the later the more they count. */
  lately: number
  /** It was bigger than at the measurement before. */
  isGrowing: boolean
}

export class DiskGrowth {
  #growths = new Map<string, Growth>()
  #measuredAt: number | undefined
  /** Bytes per second, of all sandboxes together, between the last two measurements. */
  rate = 0

  /** What sandboxes that stand still grew by lately does not fade: it is still theirs. */
  measure(uses: readonly DiskUse[], now: number, standsStill: (sandboxID: string) => boolean): void {
    const elapsedMs = Math.max(1, now - (this.#measuredAt ?? now))
    const before = this.#growths
    this.#measuredAt = now
    this.#growths = new Map()
    let grown = 0
    for (const { sandboxID, allocatedBytes, unwrittenBytes } of uses) {
      const size = allocatedBytes + unwrittenBytes
      const last = before.get(sandboxID)
      const growth = last ? Math.max(0, size - last.size) : unwrittenBytes
      const fade = standsStill(sandboxID) ? 1 : 0.5 ** (elapsedMs / halfLifeMs)
      this.#growths.set(sandboxID, {
        size,
        lately: (last?.lately ?? 0) * fade + growth,
        isGrowing: last !== undefined && growth > 0,
      })
      if (last && !standsStill(sandboxID)) grown += growth
    }
    this.rate = (grown * 1000) / elapsedMs
  }

  /** Those that grew by at least so much lately, the fastest first. */
  fastest(leastBytes: number): { sandboxID: string; lately: number; isGrowing: boolean }[] {
    return [...this.#growths]
      .filter(([, { lately }]) => lately >= leastBytes)
      .map(([sandboxID, { lately, isGrowing }]) => ({ sandboxID, lately, isGrowing }))
      .sort((a, b) => b.lately - a.lately)
  }

  /** It goes on: what it grew by before does not count against it. */
  forget(sandboxID: string): void {
    const growth = this.#growths.get(sandboxID)
    if (growth) growth.lately = 0
  }

  clear(): void {
    this.#growths.clear()
    this.#measuredAt = undefined
    this.rate = 0
  }
}
