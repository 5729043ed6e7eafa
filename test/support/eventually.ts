import { delay } from '../../src/lib/clock.ts'

/** Nobody waits for it where all is well; a busy machine may need ten times what a quiet one does. */
const longestMs = 180_000
const shortestPauseMs = 50
const longestPauseMs = 500

/** Repeats a check until it holds, less often the longer it takes; in the end its own failure is the test's. */
export async function eventually(check: () => void | Promise<void>): Promise<void> {
  const started = Date.now()
  for (;;) {
    try {
      return await check()
    } catch (error) {
      const waitedMs = Date.now() - started
      if (waitedMs > longestMs) throw error
      await delay(Math.min(Math.max(shortestPauseMs, waitedMs / 10), longestPauseMs))
    }
  }
}
