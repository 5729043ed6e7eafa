/** A value that views share: each view that uses it is drawn again when the value changes. */
import { useEffect, useState } from 'preact/hooks'

export class Shared<T> {
  #value: T
  readonly #listeners = new Set<() => void>()

  constructor(value: T) {
    this.#value = value
  }

  get(): T {
    return this.#value
  }

  set(value: T): void {
    this.#value = value
    for (const listener of [...this.#listeners]) listener()
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  use(): T {
    const [, draw] = useState(0)
    const shown = this.#value
    useEffect(() => {
      const stop = this.subscribe(() => draw((count) => count + 1))
      // The value may have changed since the view was drawn.
      if (shown !== this.#value) draw((count) => count + 1)
      return stop
    }, [])
    return shown
  }
}
