/** Writes the memory of a snapshot while a sandbox that was started from it reads it. */
import { setTimeout } from 'node:timers/promises'
import type { MemoryLoad, PartsOfFile } from '../../../core/ports/memory-load.ts'
import type { PackedParts } from '../../../core/ports/object-store.ts'
import { runCommand } from '../../../lib/run-command.ts'
import type { SandboxRecord } from '../../host/record/records.ts'
import type { OciContext } from '../context/context.ts'
import { awaitRestoreArguments } from '../runtime/runtime-commands.ts'
import { BlockQueue, type QueuedBlock } from './block-queue.ts'
import { blockBytes, openPages, PageServerConnection } from './page-server.ts'
import { pagesFile } from './snapshot-folder.ts'

/** Limit for gVisor to take over memory that is all there. */
const restoredWithinMs = 120_000
/** Between two blocks that nobody waits for, while the sandbox starts. */
const startingPauseMs = 60

/**
 * Resolves when nobody reads the memory any more: the sandbox has all of it, or is gone. Rejects if a part cannot be
 * read or written, or if the signal aborts.
 */
export async function fillMemory(folder: string, partsOf: PartsOfFile, load: MemoryLoad): Promise<void> {
  const { signal, isStarting } = load
  const source = partsOf(pagesFile)
  if (!source) throw new Error('The pack of an arriving snapshot has no memory.')
  await using file = await openPages(folder)
  const { size } = await file.stat()
  const blocks = Math.ceil(size / blockBytes)
  const server = await PageServerConnection.open(folder, blocks)
  if (!server) return
  const ended = new AbortController()
  const stop = AbortSignal.any([signal, ended.signal])
  const queue = new BlockQueue(server, partsOfBlocks(source), isStarting)
  const stopped = Promise.withResolvers<never>()
  const underWay = new Set<Promise<void>>()
  const fill = async ({ block, parts, kind }: QueuedBlock) => {
    for (const index of parts) await source.write(index, file.fd, stop)
    server.complete(block)
    if (kind === 'later' && isStarting()) await setTimeout(startingPauseMs, undefined, { signal: stop })
  }
  const goOn = () => {
    for (let next = queue.next(); next && !stop.aborted; next = queue.next()) {
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
