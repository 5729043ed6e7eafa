/**
 * Kills processes by what is known of them and never by their number alone: a number that was read a moment ago may
 * be another process's by now, and zero is nobody's but means this process and all that it started.
 */
import { AppError } from '../../../lib/app-error.ts'
import { delay } from '../../../lib/clock.ts'
import { openPidfds, type Pidfds } from './pidfd.ts'

/** A process that hangs in the kernel cannot be killed; waiting longer for it does not help. */
const killLimitMs = 10_000
/** In between a share of what was waited so far: most are gone after ten milliseconds, and each look takes CPU. */
const [shortestPauseMs, longestPauseMs] = [1, 10]

/** Which processes are meant. */
export type ProcessSearch = {
  find(): Promise<number[]>
  /** Those of the given ones that are still meant. */
  confirm(pids: readonly number[]): number[]
}

export type KillOptions = { signal?: AbortSignal; limitMs?: number; afterKill?: () => Promise<void> }

/** Kills what is found until nothing is. Rejects, naming what is left, when that takes too long. */
export async function untilKilled(
  what: string,
  search: ProcessSearch,
  options: KillOptions = {},
): Promise<void> {
  const { signal, limitMs = killLimitMs, afterKill } = options
  for (let waitedMs = 0; ; ) {
    const left = await search.find()
    if (left.length === 0) return
    killConfirmed(left, search)
    await afterKill?.()
    if (waitedMs > limitMs) {
      throw new AppError(
        'unavailable',
        `${what} do not die though they were killed (pids ${left.join(', ')}); the kernel may be waiting for a ` +
          'device. Try again later.',
      )
    }
    const pauseMs = Math.min(Math.max(shortestPauseMs, waitedMs / 4), longestPauseMs)
    await delay(pauseMs, signal)
    waitedMs += pauseMs
  }
}

let pidfds: Pidfds | undefined

/**
 * Each process is held by a descriptor before it is looked at once more, so that what is killed is what was confirmed.
 * Nothing in between waits: a bomb of thousands of processes needs as many descriptors, and only for this moment.
 */
function killConfirmed(pids: readonly number[], search: ProcessSearch): void {
  pidfds ??= openPidfds('Processes of sandboxes cannot be killed')
  const held = new Map<number, number>()
  try {
    for (const pid of pids) {
      const fd = openUnlessFull(pidfds, pid)
      if (fd !== undefined) held.set(pid, fd)
    }
    for (const pid of search.confirm([...held.keys()])) pidfds.kill(held.get(pid)!)
  } finally {
    for (const fd of held.values()) pidfds.close(fd)
  }
}

/** Undefined: it has ended, or there are no descriptors left for now; the next look finds it again. */
function openUnlessFull(pidfds: Pidfds, pid: number): number | undefined {
  try {
    return pidfds.open(pid)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EMFILE') return undefined
    throw error
  }
}
