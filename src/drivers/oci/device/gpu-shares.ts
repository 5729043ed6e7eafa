/** Assigns GPUs to sandboxes. The record of each sandbox lists its GPUs too, from which a new process restores this. */
import { AppError } from '../../../lib/app-error.ts'
import type { Gpu } from './gpus.ts'

export class GpuShares {
  readonly #gpus: readonly Gpu[]
  readonly #share: number
  /** GPU ids by run, not by sandbox: a later run of a sandbox must not replace the entry of an earlier one. */
  readonly #held = new Map<string, readonly string[]>()

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

  /** Takes GPUs of `before` first, then the least shared ones. A sandbox never gets the same GPU twice. */
  take(runID: string, count: number, before: readonly string[] = []): Gpu[] {
    const free = this.#gpus.filter(({ id }) => this.#freeOf(id) > 0)
    if (free.length < count) {
      throw new AppError(
        'unavailable',
        `${free.length} of this machine's ${this.#gpus.length} GPUs are free, and the sandbox needs ${count}.`,
      )
    }
    const rank = ({ id }: Gpu) => (before.includes(id) ? this.#share : 0) + this.#freeOf(id)
    const chosen = free.toSorted((a, b) => rank(b) - rank(a)).slice(0, count)
    const ids = new Set(chosen.map(({ id }) => id))
    this.#held.set(runID, [...ids])
    return this.#gpus.filter(({ id }) => ids.has(id))
  }

  /** Counts the GPUs of a sandbox that an earlier process started. New sandboxes may not be allowed on them any more. */
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
