/** Which sandbox has which GPUs. The record of each sandbox says it too, so that a new process knows it from there. */
import { AppError } from '../../../lib/app-error.ts'
import type { Gpu } from './gpus.ts'

export class GpuShares {
  readonly #gpus: readonly Gpu[]
  readonly #share: number
  /** By run: a second sandbox of the same id must not take the place of the first. */
  readonly #held = new Map<string, readonly string[]>()

  /** `share`: so many sandboxes may have the same GPU at once. */
  constructor(gpus: readonly Gpu[], share: number) {
    this.#gpus = gpus
    this.#share = share
  }

  get total(): number {
    return this.#gpus.length * this.#share
  }

  /** How many can still be taken, by however many sandboxes. */
  get free(): number {
    return this.#gpus.reduce((sum, { id }) => sum + this.#freeOf(id), 0)
  }

  /** The most that one sandbox can have. */
  get largest(): number {
    return this.#gpus.length
  }

  /**
   * The least shared ones; a sandbox never gets the same one twice. `before`: those whose memory is restored, and no others, since
   * the driver gives memory back to the card that it came from.
   */
  take(runID: string, count: number, before?: readonly string[]): Gpu[] {
    if (before) return this.#takeAgain(runID, before)
    const free = this.#gpus.filter(({ id }) => this.#freeOf(id) > 0)
    if (free.length < count) {
      throw new AppError(
        'unavailable',
        `${free.length} of this machine's ${this.#gpus.length} GPUs are free, and the sandbox needs ${count}.`,
      )
    }
    const chosen = free.toSorted((a, b) => this.#freeOf(b.id) - this.#freeOf(a.id)).slice(0, count)
    return this.#give(
      runID,
      chosen.map(({ id }) => id),
    )
  }

  #takeAgain(runID: string, ids: readonly string[]): Gpu[] {
    const busy = ids.filter((id) => this.#freeOf(id) === 0)
    if (busy.length > 0) {
      throw new AppError(
        'unavailable',
        `The sandbox's GPU memory can only go back to the GPU that it came from, and other sandboxes have ${busy.join(', ')}. ` +
          'Try again when they have ended, or start without memory.',
      )
    }
    return this.#give(runID, ids)
  }

  #give(runID: string, ids: readonly string[]): Gpu[] {
    this.#held.set(runID, ids)
    return this.#gpus.filter(({ id }) => ids.includes(id))
  }

  /** A sandbox that an earlier process started. Its GPU may be one that new sandboxes do not get any more. */
  adopt(runID: string, ids: readonly string[]): void {
    this.#held.set(runID, ids)
  }

  release(runID: string): void {
    this.#held.delete(runID)
  }

  #freeOf(id: string): number {
    const users = [...this.#held.values()].filter((ids) => ids.includes(id)).length
    return Math.max(0, this.#share - users)
  }
}
