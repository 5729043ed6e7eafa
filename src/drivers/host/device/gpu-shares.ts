/** Assigns GPUs to sandboxes. The record of each sandbox lists its GPUs too, from which a new process restores this. */
import { AppError } from '../../../lib/app-error.ts'
import type { Gpu } from './gpus.ts'

export class GpuShares {
  readonly #gpus: readonly Gpu[]
  readonly #share: number
  /** GPU ids by run, not by sandbox: a later run of a sandbox must not replace the entry of an earlier one. */
  readonly #reserved = new Map<string, readonly string[]>()

  /** `share` is the maximum number of sandboxes per GPU. */
  constructor(gpus: readonly Gpu[], share: number) {
    this.#gpus = gpus
    this.#share = share
  }

  get total(): number {
    return this.#gpus.length * this.#share
  }

  /** Number of GPU shares that are free, for all sandboxes together. */
  get free(): number {
    return this.#gpus.reduce((sum, { id }) => sum + this.#freeOf(id), 0)
  }

  /** Maximum number of GPUs of one sandbox. */
  get largest(): number {
    return this.#gpus.length
  }

  /**
   * Takes the least shared GPUs; a sandbox never gets the same GPU twice. `before`: the GPUs whose memory is restored. The sandbox
   * gets these and no others, because the driver restores memory to the card that it came from.
   */
  reserve(runID: string, count: number, before?: readonly string[]): Gpu[] {
    if (before) return this.#reserveAgain(runID, before)
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

  #reserveAgain(runID: string, ids: readonly string[]): Gpu[] {
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
    this.#reserved.set(runID, ids)
    return this.#gpus.filter(({ id }) => ids.includes(id))
  }

  /** Counts the GPUs of a sandbox that an earlier process started. New sandboxes may not be allowed on them any more. */
  adopt(runID: string, ids: readonly string[]): void {
    this.#reserved.set(runID, ids)
  }

  /** Frees all GPUs. */
  forget(): void {
    this.#reserved.clear()
  }

  release(runID: string): void {
    this.#reserved.delete(runID)
  }

  #freeOf(id: string): number {
    const users = [...this.#reserved.values()].filter((ids) => ids.includes(id)).length
    return Math.max(0, this.#share - users)
  }
}
