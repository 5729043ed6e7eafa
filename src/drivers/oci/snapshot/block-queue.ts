/** The order in which the memory of a sandbox arrives, in blocks, while the sandbox starts and runs. */
import type { PageServerConnection } from './page-server.ts'

/**
 * Urgent: a thread waits for it. Early: a start needs most of these. Later: all others, in the order in which gVisor reads
 * ahead.
 */
type BlockKind = 'urgent' | 'early' | 'later'
/** The parts are indexes of the pack. */
export type QueuedBlock = { block: number; parts: readonly number[]; kind: BlockKind }

/** Number of blocks that are fetched at once; few of those that nobody waits for, so that urgent ones come soon. */
const blocksAtOnce = 8
const laterAtOnce = 3
const earlyAtOnce = 2
/**
 * gVisor gives out memory from the end of its file to the beginning. So the last blocks have the memory of the agent,
 * which is older than all else, and the first ones what was written last.
 */
const lastBlocks = 6
const firstBlocks = 4
/** gVisor reads at most this many missing blocks ahead. */
const readAheadBlocks = 6

export class BlockQueue {
  readonly #server: Pick<PageServerConnection, 'isThere' | 'complete'>
  readonly #isStarting: () => boolean
  readonly #missing: Map<number, number[]>
  readonly #urgent: number[] = []
  readonly #early: number[]
  readonly #later: number[]
  readonly #underWay = { urgent: 0, early: 0, later: 0 }
  /** Number of the first block that may be missing. */
  #complete = 0

  constructor(
    server: Pick<PageServerConnection, 'isThere' | 'complete'>,
    parts: ReadonlyMap<number, number[]>,
    isStarting: () => boolean,
  ) {
    this.#server = server
    this.#isStarting = isStarting
    this.#missing = new Map(parts)
    for (const [block, isThere] of server.isThere.entries()) {
      if (isThere) this.#missing.delete(block)
      // Without parts it is all zeros, as the file is.
      else if (!parts.has(block)) server.complete(block)
    }
    const inOrder = [...this.#missing.keys()].sort((one, other) => one - other)
    this.#early = [...inOrder.splice(-lastBlocks).reverse(), ...inOrder.splice(0, firstBlocks)]
    this.#later = inOrder
  }

  /** Notes that a read waits for the block. gVisor's own read-ahead is among the first missing blocks, and can wait. */
  want(block: number): void {
    if (!this.#isReadAhead(block)) this.#urgent.push(block)
  }

  #isReadAhead(block: number): boolean {
    const { isThere } = this.#server
    while (isThere[this.#complete]) this.#complete++
    let missing = 0
    for (let before = this.#complete; before < block; before++) {
      if (!isThere[before] && ++missing === readAheadBlocks) return false
    }
    return true
  }

  /** Undefined if no block is left, or enough are under way. Call `release` for each block that was taken. */
  next(): QueuedBlock | undefined {
    const { urgent, early, later } = this.#underWay
    if (urgent + early + later < blocksAtOnce) {
      const found = this.#next(this.#urgent, 'urgent')
      if (found) return found
    }
    if (early < earlyAtOnce) {
      const found = this.#next(this.#early, 'early')
      if (found) return found
    }
    // Whoever starts or waits needs the bandwidth and the CPUs.
    const max = urgent > 0 || this.#isStarting() ? 1 : laterAtOnce
    return early + later < max ? this.#next(this.#later, 'later') : undefined
  }

  release({ kind }: QueuedBlock): void {
    this.#underWay[kind]--
  }

  #next(blocks: number[], kind: BlockKind): QueuedBlock | undefined {
    for (let block = blocks.shift(); block !== undefined; block = blocks.shift()) {
      const parts = this.#missing.get(block)
      if (!parts) continue
      this.#missing.delete(block)
      this.#underWay[kind]++
      return { block, parts, kind }
    }
    return undefined
  }
}
