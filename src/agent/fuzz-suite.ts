/** Bounded fuzzing: the same cases on every run of a seed, as many as fit into the time. */

export type Random = {
  below(limit: number): number
  pick<T>(items: readonly T[]): T
  bytes(length: number): Buffer
  chance(share: number): boolean
}

const runForMs = 2000

export async function fuzz(seed: number, body: (random: Random, round: number) => unknown): Promise<void> {
  const random = randomOf(seed)
  const end = performance.now() + runForMs
  for (let round = 0; performance.now() < end; round++) {
    try {
      await body(random, round)
    } catch (error) {
      throw new Error(`seed ${seed}, round ${round}`, { cause: error })
    }
  }
}

/** A small generator with a state of 32 bits (mulberry32): quick, and the same everywhere. */
function randomOf(seed: number): Random {
  let state = seed
  const next = () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit: number) => Math.floor(next() * limit)
  return {
    below,
    pick: (items) => items[below(items.length)]!,
    bytes: (length) => Buffer.from(Array.from({ length }, () => below(256))),
    chance: (share) => next() < share,
  }
}
