/** Writes the memory of a snapshot while a sandbox that was started from it reads it. */
import type { PackedParts } from '../../../core/ports/object-store.ts'
import { runCommand } from '../../../lib/run-command.ts'
import type { OciContext } from '../context/context.ts'
import type { SandboxRecord } from '../record/records.ts'
import { awaitRestoreArguments } from '../runtime/runtime-commands.ts'
import { blockBytes, openPages, PageServerConnection } from './page-server.ts'
import { pagesFile } from './snapshot-folder.ts'

type QueuedBlock = { block: number; parts: readonly number[]; isUrgent: boolean }

export type PartsOfFile = (file: string) => PackedParts | undefined

/** Number of blocks that are fetched at once; few of those that nobody waits for, so that urgent ones come soon. */
const [blocksAtOnce, inOrderAtOnce] = [8, 3]
/** Limit for gVisor to take over memory that is all there. */
const restoredWithinMs = 120_000
/** Maximum distance of two blocks that gVisor reads ahead one after the other. */
const readAheadStep = 4

/**
 * Resolves when nobody reads the memory any more: the sandbox has all of it, or is gone. Rejects if a part cannot be
 * read or written, or if the signal aborts.
 */
export async function fillMemory(folder: string, partsOf: PartsOfFile, signal: AbortSignal): Promise<void> {
  const source = partsOf(pagesFile)
  if (!source) throw new Error('The pack of an arriving snapshot has no memory.')
  await using file = await openPages(folder)
  const { size } = await file.stat()
  const blocks = Math.ceil(size / blockBytes)
  const server = await PageServerConnection.open(folder, blocks)
  if (!server) return
  const ended = new AbortController()
  const stop = AbortSignal.any([signal, ended.signal])
  const queue = new BlockQueue(server, partsOfBlocks(source))
  const stopped = Promise.withResolvers<never>()
  const underWay = new Set<Promise<void>>()
  const fill = async ({ block, parts }: QueuedBlock) => {
    for (const index of parts) {
      const bytes = await source.read(index, stop)
      await file.write(bytes, 0, bytes.length, source.parts[index]!.at)
    }
    server.complete(block)
  }
  const goOn = () => {
    for (let next = queue.take(); next && !stop.aborted; next = queue.take()) {
      const one = next
      const work = fill(one)
        .then(() => {
          queue.release(one)
          goOn()
        }, stopped.reject)
        .finally(() => underWay.delete(work))
      underWay.add(work)
    }
  }
  const abort = () => stopped.reject(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  try {
    if (signal.aborted) abort()
    server.onWanted((block) => {
      queue.want(block)
      goOn()
    })
    goOn()
    // Stays connected until the memory was read: without a reader and without us the server ends.
    await Promise.race([server.closed, stopped.promise])
  } finally {
    signal.removeEventListener('abort', abort)
    ended.abort()
    await Promise.allSettled(underWay)
    server.close()
  }
}

/** Rejects if gVisor says that it does not have all its memory, or says nothing. */
export async function untilMemoryRestored(
  { layout }: OciContext,
  record: SandboxRecord,
  signal: AbortSignal,
): Promise<void> {
  const [program, ...args] = awaitRestoreArguments(layout, record)
  await runCommand(program!, args, { timeoutMs: restoredWithinMs, signal })
}

/** The parts of each block. No part lies in two blocks, because packs are cut at the same borders. */
function partsOfBlocks({ parts }: PackedParts): Map<number, number[]> {
  const blocks = new Map<number, number[]>()
  for (const [index, { at }] of parts.entries()) {
    const block = Math.floor(at / blockBytes)
    const indexes = blocks.get(block)
    if (indexes) indexes.push(index)
    else blocks.set(block, [index])
  }
  return blocks
}

/**
 * The order of the blocks: urgent ones first, then all others by their position. gVisor reads ahead by position too,
 * so a block a little behind the last one of these reads is not urgent. Other blocks are: a thread waits for them.
 */
class BlockQueue {
  readonly #missing: Map<number, number[]>
  readonly #urgent: number[] = []
  readonly #inOrder: MapIterator<number>
  #readAhead = -1
  #underWay = 0
  #inOrderUnderWay = 0

  constructor(server: PageServerConnection, blocks: ReadonlyMap<number, number[]>) {
    this.#missing = new Map(blocks)
    for (const [block, isThere] of server.isThere.entries()) {
      if (isThere) this.#missing.delete(block)
      // Without parts it is all zeros, as the file is.
      else if (!blocks.has(block)) server.complete(block)
    }
    this.#inOrder = new Map([...this.#missing].sort(([one], [other]) => one - other)).keys()
  }

  /** Notes that a read waits for the block. */
  want(block: number): void {
    if (block > this.#readAhead && block <= this.#readAhead + readAheadStep) this.#readAhead = block
    else this.#urgent.push(block)
  }

  /** Undefined if no block is left, or enough are under way. Call `release` for each block that was taken. */
  take(): QueuedBlock | undefined {
    if (this.#underWay === blocksAtOnce) return undefined
    for (let block = this.#urgent.shift(); block !== undefined; block = this.#urgent.shift()) {
      if (this.#missing.has(block)) return this.#taken(block, true)
    }
    // Others must not take the bandwidth from urgent ones.
    const most = this.#underWay > this.#inOrderUnderWay ? 1 : inOrderAtOnce
    if (this.#inOrderUnderWay >= most) return undefined
    for (const block of this.#inOrder) if (this.#missing.has(block)) return this.#taken(block, false)
    return undefined
  }

  release({ isUrgent }: QueuedBlock): void {
    this.#underWay--
    if (!isUrgent) this.#inOrderUnderWay--
  }

  #taken(block: number, isUrgent: boolean): QueuedBlock {
    const parts = this.#missing.get(block)!
    this.#missing.delete(block)
    this.#underWay++
    if (!isUrgent) this.#inOrderUnderWay++
    return { block, parts, isUrgent }
  }
}
