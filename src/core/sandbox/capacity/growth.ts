/** Measures how fast sandboxes grow, on disk or in memory, from successive measurements. */

/** After this time, past growth of a sandbox counts half. */
const halfLifeMs = 10_000

export type MeasuredSize = {
  sandboxID: string
  bytes: number
  /** Bytes that count as growth when the sandbox is measured for the first time. Missing: 0. */
  newBytes?: number
}

type GrowingSandbox = {
  sandboxID: string
  /** Recent growth in bytes; older growth counts less. */
  lately: number
  /** Whether it was larger than at the previous measurement. */
  isGrowing: boolean
}

type Growth = Omit<GrowingSandbox, 'sandboxID'> & { bytes: number; rate: number }

export class GrowthMeter {
  #growths = new Map<string, Growth>()
  #measuredAt: number | undefined
  /** Bytes per second, of all sandboxes together, between the last two measurements. */
  rate = 0

  /** The growth of a frozen sandbox does not fade, because the sandbox still occupies it. */
  measure(sizes: readonly MeasuredSize[], now: number, isFrozen: (sandboxID: string) => boolean): void {
    const elapsedMs = Math.max(1, now - (this.#measuredAt ?? now))
    const before = this.#growths
    this.#measuredAt = now
    this.#growths = new Map()
    let grown = 0
    for (const { sandboxID, bytes, newBytes = 0 } of sizes) {
      const last = before.get(sandboxID)
      const growth = last ? Math.max(0, bytes - last.bytes) : newBytes
      const fade = isFrozen(sandboxID) ? 1 : 0.5 ** (elapsedMs / halfLifeMs)
      this.#growths.set(sandboxID, {
        bytes,
        lately: (last?.lately ?? 0) * fade + growth,
        isGrowing: last !== undefined && growth > 0,
        rate: last && !isFrozen(sandboxID) ? (growth * 1000) / elapsedMs : 0,
      })
      if (last && !isFrozen(sandboxID)) grown += growth
    }
    this.rate = (grown * 1000) / elapsedMs
  }

  /** Returns the sandboxes whose recent growth is at least `minBytes`, the fastest first. */
  fastest(minBytes: number): GrowingSandbox[] {
    return [...this.#growths]
      .filter(([, { lately }]) => lately >= minBytes)
      .map(([sandboxID, { lately, isGrowing }]) => ({ sandboxID, lately, isGrowing }))
      .sort((a, b) => b.lately - a.lately)
  }

  /** Bytes per second that a sandbox took between the last two measurements. */
  rateOf(sandboxID: string): number {
    return this.#growths.get(sandboxID)?.rate ?? 0
  }

  /** Resets the recent growth of a sandbox that continues after a freeze. */
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
