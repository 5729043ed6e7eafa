import { untilAborted } from '../../lib/until-aborted.ts'

/** Runs one task after another, in the order of the calls, even if one of them fails or is aborted. */
export class InputOrder {
  #last: Promise<unknown> = Promise.resolve()

  async run(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    const before = this.#last
    const mine = Promise.withResolvers<void>()
    this.#last = before.then(() => mine.promise)
    try {
      await untilAborted(before, signal)
      await work()
    } finally {
      mine.resolve()
    }
  }
}
