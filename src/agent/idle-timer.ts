import { monotonicMs } from '../lib/clock.ts'

/** A timer that is later than this was held up: the sandbox stood still, or its machine was busy with others. */
const lateMs = 1000

/**
 * Calls `work` once the returned function was not called for so long. Where the sandbox was frozen meanwhile it waits
 * anew: whoever let it go on is about to ask for something, and should not wait for this.
 */
export function openIdleTimer(ms: number, work: () => void, now = monotonicMs): () => void {
  let isWaiting = false
  let calledAt = 0
  const waitFor = (waitMs: number) => {
    const dueAt = now() + waitMs
    isWaiting = true
    setTimeout(() => {
      isWaiting = false
      if (now() > dueAt + lateMs) calledAt = now()
      const leftMs = calledAt + ms - now()
      if (leftMs > 0) waitFor(leftMs)
      else work()
    }, waitMs)
  }
  return () => {
    calledAt = now()
    if (!isWaiting) waitFor(ms)
  }
}
