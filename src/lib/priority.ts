/**
 * The thread of the event loop comes before the programs and threads that it starts: everybody's requests wait for it,
 * and a burst of boots starts hundreds of them. Linux keeps a priority for each thread and hands it on to what the thread
 * starts, so that is started at the one this process was started with.
 */
import { getPriority, setPriority } from 'node:os'

/** Steps of niceness: with them, one thread gets about as much CPU as five others. */
const ahead = 7

let usual: number | undefined

/** To be called by the thread of the event loop. Gives back why it cannot be done here. */
export function raisePriority(): string | undefined {
  const before = getPriority()
  try {
    setPriority(before - ahead)
    usual = before
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

export function restorePriority(): void {
  if (usual !== undefined) setPriority(usual)
  usual = undefined
}

/** For `start` that starts a program or a thread before it returns. */
export function atUsualPriority<T>(start: () => T): T {
  if (usual === undefined) return start()
  setPriority(usual)
  try {
    return start()
  } finally {
    setPriority(usual - ahead)
  }
}
