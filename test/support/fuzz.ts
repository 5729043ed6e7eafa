/** Randomness that can be had again from its seed, and bytes bent out of shape with it. */

export type Random = {
  below(limit: number): number
  pick<T>(items: readonly T[]): T
  bytes(length: number): Buffer
  chance(share: number): boolean
}

const runForMs = 2000

/** Bounded fuzzing: the same cases on every run of a seed, as many as fit into the time. */
export async function fuzz(seed: number, body: (random: Random, round: number) => unknown): Promise<void> {
  const random = seeded(seed)
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
export function seeded(seed: number): Random {
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

export const newSeed = (): number => (Date.now() % 2 ** 31) + 1

/** Some bytes changed, dropped, doubled, or cut off. */
export function mutate(bytes: Buffer, random: Random): Buffer {
  let mutated = Buffer.from(bytes)
  for (let change = random.below(4); change >= 0; change--) {
    const at = random.below(mutated.length + 1)
    const length = random.below(8)
    const kind = random.below(5)
    const [before, after] = [mutated.subarray(0, at), mutated.subarray(at)]
    if (kind === 0 && at < mutated.length) mutated[at] = random.below(256)
    if (kind === 1) mutated = Buffer.concat([before, after.subarray(length)])
    if (kind === 2) mutated = Buffer.concat([before, after.subarray(0, length), after])
    if (kind === 3) mutated = Buffer.from(before)
    if (kind === 4 && at + 2 <= mutated.length)
      mutated.writeUInt16BE(random.pick([0, 1, 255, 0x4000, 65535]), at)
  }
  return mutated
}
