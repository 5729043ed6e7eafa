import { monotonicMs } from '../lib/clock.ts'

/**
 * A timer that fires later than this was delayed: the sandbox was frozen, or its machine was busy with
 * others.
 */
const lateMs = 1000

/**
 * Calls `work` once the returned function was not called for `ms`. If the sandbox was frozen meanwhile, waits
 * again: whoever thawed it is about to make a request, which should not wait for this.
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
