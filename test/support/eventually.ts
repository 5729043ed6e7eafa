import { delay } from '../../src/lib/clock.ts'

/** Repeats a check until it holds; after `withinMs` its own failure is the test's. */
export async function eventually(check: () => void | Promise<void>, withinMs = 15_000): Promise<void> {
  const deadline = Date.now() + withinMs
  for (;;) {
    try {
      return await check()
    } catch (error) {
      if (Date.now() > deadline) throw error
      await delay(50)
    }
  }
}
