/**
 * Kills processes by their properties and never by their pid alone: a pid that was read a moment ago may
 * belong to another process by now, and pid zero means this process and all that it started.
 */
import { AppError } from '../../../lib/app-error.ts'
import { delay } from '../../../lib/clock.ts'
import { openPidfds, type Pidfds } from './pidfd.ts'

/** A process that hangs in the kernel cannot be killed; waiting longer does not help. */
const killLimitMs = 10_000
/**
 * The pause is a share of the time waited so far: most processes are gone after ten milliseconds, and each
 * check takes CPU.
 */
const shortestPauseMs = 1
const longestPauseMs = 10

/** Selects the processes. */
type ProcessSearch = {
  find(): Promise<number[]>
  /** Returns those of the pids that still match. */
  confirm(pids: readonly number[]): number[]
}

type KillOptions = { signal?: AbortSignal; limitMs?: number; afterKill?: () => Promise<void> }

/** Kills the matching processes until there are none. Rejects with their pids if that takes too long. */
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
 * Holds each process by a descriptor before it is checked again, so that exactly the confirmed process is
 * killed. Synchronous: a bomb of thousands of processes needs as many descriptors, and only for this moment.
 */
function killConfirmed(pids: readonly number[], search: ProcessSearch): void {
  pidfds ??= openPidfds('Processes of sandboxes cannot be killed')
  const frozen = new Map<number, number>()
  try {
    for (const pid of pids) {
      const fd = openUnlessFull(pidfds, pid)
      if (fd !== undefined) frozen.set(pid, fd)
    }
    for (const pid of search.confirm([...frozen.keys()])) pidfds.kill(frozen.get(pid)!)
  } finally {
    for (const fd of frozen.values()) pidfds.close(fd)
  }
}

/** Undefined if it has ended, or if there are no descriptors left for now; the next check finds it again. */
function openUnlessFull(pidfds: Pidfds, pid: number): number | undefined {
  try {
    return pidfds.open(pid)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EMFILE') return undefined
    throw error
  }
}
