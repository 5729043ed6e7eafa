import { delay } from '../../src/lib/clock.ts'

/** Nobody waits for it where all is well; a busy machine may need ten times what a quiet one does. */
const longestMs = 180_000

/** Repeats a check until it holds; in the end its own failure is the test's. */
export async function eventually(check: () => void | Promise<void>): Promise<void> {
  const deadline = Date.now() + longestMs
  for (;;) {
    try {
      return await check()
    } catch (error) {
      if (Date.now() > deadline) throw error
      await delay(50)
    }
  }
}
