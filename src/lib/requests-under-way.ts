/** The requests of servers that have not been answered completely, and since when. Upgraded connections do not count. */
import type { Server } from 'node:http'
import { type Clock, sleep } from './clock.ts'
import { letOthersRun } from './let-others-run.ts'

const lookEveryMs = 20

export class RequestsUnderWay {
  readonly #clock: Clock
  readonly #since = new Set<{ at: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  watch(server: Server): void {
    for (const event of ['request', 'checkContinue'] as const) {
      server.prependListener(event, (_request, response) => {
        const since = { at: this.#clock.now() }
        this.#since.add(since)
        response.once('close', () => this.#since.delete(since))
      })
    }
  }

  /**
   * Waits for requests until they are that old, and while `isAwaited`. Older ones are long commands and streams, which may
   * last for hours.
   */
  letFinish(withinMs: number, isAwaited = () => false): Promise<void> {
    const lasts = (time: number) => isAwaited() || [...this.#since].some(({ at }) => at > time)
    return letYoungFinish(this.#clock, withinMs, lasts)
  }
}

/**
 * Waits while something that began after a time, which is `withinMs` ago, still lasts. When a process was busy, Node runs
 * timers before it reads: so nothing counts as over before Node has read what arrived meanwhile.
 */
export async function letYoungFinish(
  clock: Clock,
  withinMs: number,
  lastsSince: (time: number) => boolean,
): Promise<void> {
  // Counted, because a clock that is set back would make requests look new for as long.
  for (let waitedMs = 0; waitedMs < withinMs; waitedMs += lookEveryMs) {
    if (!lastsSince(clock.now() - withinMs)) {
      await letOthersRun()
      if (!lastsSince(clock.now() - withinMs)) return
    }
    await sleep(clock, lookEveryMs)
  }
}
