/**
 * Text from a sandbox, which may be endless: stores its beginning and its end, and the length between them.
 */

export class BoundedText {
  readonly #half: number
  #head = ''
  #tail = ''
  #length = 0

  /** `limit` is in characters. */
  constructor(limit: number) {
    this.#half = Math.floor(limit / 2)
  }

  add(text: string): void {
    this.#length += text.length
    const free = this.#half - this.#head.length
    const [head, tail] = [text.slice(0, free), text.slice(free).slice(-this.#half)]
    this.#head += text.length > this.#half ? copied(head) : head
    this.#tail = (this.#tail + (text.length > this.#half ? copied(tail) : tail)).slice(-this.#half)
  }

  toString(): string {
    const left = this.#length - this.#head.length - this.#tail.length
    return left > 0
      ? `${this.#head}\n[… ${left} characters are left out …]\n${this.#tail}`
      : this.#head + this.#tail
  }
}

/** A slice keeps all of the text in memory of which it is a part. */
const copied = (slice: string) => Buffer.from(slice, 'utf16le').toString('utf16le')
