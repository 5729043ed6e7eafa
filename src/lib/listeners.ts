/** Functions that are called with every value until they are removed. */
export class Listeners<T> {
  readonly #listeners = new Set<(value: T) => void>()

  /** The returned function removes the listener. */
  readonly add = (listener: (value: T) => void): (() => void) => {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  notify(value: T): void {
    for (const listener of this.#listeners) listener(value)
  }
}
