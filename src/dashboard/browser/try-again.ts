/**
 * Does again what a broken connection cut off. Chromium breaks off what is under way when a network comes or goes
 * (ERR_NETWORK_CHANGED), and each sandbox that starts on the browser's own machine brings one. Several may start at a time.
 */
import { delay } from '../../lib/clock.ts'

const waitsMs = [200, 1000]

export async function tryAgain<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (const ms of waitsMs) {
    try {
      return await work()
    } catch (error) {
      if (signal?.aborted) throw error
      await delay(ms)
    }
  }
  return work()
}
