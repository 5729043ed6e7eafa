/** How fast sandboxes take more of something, disk or memory, out of one measurement after the other. */

/** What a sandbox grew by counts half after this time. */
const halfLifeMs = 10_000

export type MeasuredSize = {
  sandboxID: string
  bytes: number
  /** Counts as growth where the sandbox is measured for the first time. Missing: none. */
  newBytes?: number
}

export type GrowingSandbox = {
  sandboxID: string
  /** Bytes that it grew by, the later the more they count. */
  lately: number
  /** It was bigger than at the measurement before. */
  isGrowing: boolean
}

type Growth = Omit<GrowingSandbox, 'sandboxID'> & { bytes: number }

export class GrowthMeter {
  #growths = new Map<string, Growth>()
  #measuredAt: number | undefined
  /** Bytes per second, of all sandboxes together, between the last two measurements. */
  rate = 0

  /** What sandboxes that stand still grew by lately does not fade: it is still theirs. */
  measure(sizes: readonly MeasuredSize[], now: number, standsStill: (sandboxID: string) => boolean): void {
    const elapsedMs = Math.max(1, now - (this.#measuredAt ?? now))
    const before = this.#growths
    this.#measuredAt = now
    this.#growths = new Map()
    let grown = 0
    for (const { sandboxID, bytes, newBytes = 0 } of sizes) {
      const last = before.get(sandboxID)
      const growth = last ? Math.max(0, bytes - last.bytes) : newBytes
      const fade = standsStill(sandboxID) ? 1 : 0.5 ** (elapsedMs / halfLifeMs)
      this.#growths.set(sandboxID, {
        bytes,
        lately: (last?.lately ?? 0) * fade + growth,
        isGrowing: last !== undefined && growth > 0,
      })
      if (last && !standsStill(sandboxID)) grown += growth
    }
    this.rate = (grown * 1000) / elapsedMs
  }

  /** Those that grew by at least so much lately, the fastest first. */
  fastest(leastBytes: number): GrowingSandbox[] {
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
