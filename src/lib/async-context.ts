import { AsyncLocalStorage } from 'node:async_hooks'

/** A value that goes with work through all that the work awaits and starts. */
export class AsyncContext<T> {
  readonly #storage = new AsyncLocalStorage<T>()

  run<Result>(value: T, work: () => Result): Result {
    return this.#storage.run(value, work)
  }

  /** Undefined outside of such work. */
  current(): T | undefined {
    return this.#storage.getStore()
  }
}
