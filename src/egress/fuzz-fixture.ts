/** For tests: randomness that can be had again from its seed, and bytes bent out of shape with it. */

export type Random = (below: number) => number

export function seeded(seed: number): Random {
  let state = seed || 1
  return (below) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % below
  }
}

export const newSeed = (): number => (Date.now() % 2 ** 31) + 1

export const pick = <T>(random: Random, list: readonly T[]): T => list[random(list.length)]!

/** Some bytes changed, dropped, doubled, or cut off. */
export function mutate(bytes: Buffer, random: Random): Buffer {
  let mutated = Buffer.from(bytes)
  for (let change = random(4); change >= 0; change--) {
    const at = random(mutated.length + 1)
    const length = random(8)
    const kind = random(5)
    const [before, after] = [mutated.subarray(0, at), mutated.subarray(at)]
    if (kind === 0 && at < mutated.length) mutated[at] = random(256)
    if (kind === 1) mutated = Buffer.concat([before, after.subarray(length)])
    if (kind === 2) mutated = Buffer.concat([before, after.subarray(0, length), after])
    if (kind === 3) mutated = Buffer.from(before)
    if (kind === 4 && at + 2 <= mutated.length)
      mutated.writeUInt16BE(pick(random, [0, 1, 255, 0x4000, 65535]), at)
  }
  return mutated
}
