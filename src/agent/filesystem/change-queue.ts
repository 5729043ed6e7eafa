import type { EventType } from '../../contract/rpc/filesystem_pb.ts'
import { AppError } from '../../lib/app-error.ts'

/** A name relative to the watched folder, and what happened to it. */
export type Change = { name: string; type: EventType }

const maxQueued = 16_384

/**
 * Changes that wait for the watcher's client. A client that does not read them in time gets an error, never a
 * gap.
 */
export class ChangeQueue {
  #changes: Change[] = []
  #failure: AppError | undefined
  #ended = false
  #wake: (() => void) | undefined

  get failure(): AppError | undefined {
    return this.#failure
  }

  /** True if no more changes are accepted. */
  get over(): boolean {
    return this.#ended || this.#failure !== undefined
  }

  push(name: string, type: EventType): void {
    if (this.over) return
    if (this.#changes.length >= maxQueued) {
      this.fail(
        new AppError(
          'limit_reached',
          `more than ${maxQueued} events were waiting to be read: read sooner, or watch a smaller directory`,
        ),
      )
      return
    }
    this.#changes.push({ name, type })
    this.#wake?.()
  }

  fail(error: AppError): void {
    if (!this.over) this.#failure = error
    this.#wake?.()
  }

  end(): void {
    this.#ended = true
    this.#wake?.()
  }

  /** Returns all waiting changes; throws the reason for the end of the watch once there are none. */
  drain(): Change[] {
    const changes = this.#changes
    this.#changes = []
    if (changes.length === 0 && this.#failure) throw this.#failure
    return changes
  }

  /** Like `drain`, but waits: 'silence' if nothing came for `silenceMs`, undefined after the end. */
  async next(silenceMs: number): Promise<Change[] | 'silence' | undefined> {
    if (this.#changes.length === 0 && !this.over && (await this.#wait(silenceMs))) return 'silence'
    const changes = this.drain()
    return changes.length > 0 ? changes : undefined
  }

  #wait(silenceMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const finish = (silent: boolean) => {
        clearTimeout(timer)
        this.#wake = undefined
        resolve(silent)
      }
      const timer = setTimeout(() => finish(true), silenceMs)
      this.#wake = () => finish(false)
    })
  }
}
