/** The last bytes of a stream, in as little memory as they need. */

/** The memory limit for all tails together; a tail that gets no more holds less. */
export type TailBudget = { reserve(bytes: number): boolean; give(bytes: number): void }

export class Tail {
  #limit: number
  #budget: TailBudget
  #ring: Buffer<ArrayBuffer> = Buffer.alloc(0)
  /** Number of bytes ever appended. */
  #length = 0
  /** The position in the ring of the next byte. */
  #at = 0
  #size = 0

  constructor(limit: number, budget: TailBudget) {
    this.#limit = limit
    this.#budget = budget
  }

  append(bytes: Uint8Array): void {
    this.#length += bytes.length
    this.#growFor(this.#size + bytes.length)
    const size = this.#ring.length
    if (size === 0) return
    const fresh = bytes.subarray(Math.max(0, bytes.length - size))
    const first = Math.min(fresh.length, size - this.#at)
    this.#ring.set(fresh.subarray(0, first), this.#at)
    this.#ring.set(fresh.subarray(first), 0)
    this.#at = (this.#at + fresh.length) % size
    this.#size = Math.min(size, this.#size + fresh.length)
  }

  /**
   * Returns the stored bytes from a whole character on; their memory stays accounted for until it is
   * released.
   */
  seal(): Buffer {
    const all = this.#inOrder()
    const cut = this.#length > this.#size ? continuationBytes(all) : 0
    const sealed = cut === 0 && all === this.#ring ? all : copyOf(all.subarray(cut))
    this.#budget.give(this.#ring.length - sealed.length)
    this.#ring = Buffer.alloc(0)
    this.#size = 0
    return sealed
  }

  #growFor(wanted: number): void {
    const size = this.#ring.length
    if (wanted <= size || size === this.#limit) return
    const larger = Math.min(Math.max(wanted, 2 * size), this.#limit)
    if (!this.#budget.reserve(larger - size)) return
    const content = this.#inOrder()
    this.#ring = Buffer.allocUnsafeSlow(larger)
    content.copy(this.#ring)
    this.#at = content.length % larger
  }

  #inOrder(): Buffer<ArrayBuffer> {
    if (this.#size < this.#ring.length) return this.#ring.subarray(0, this.#size)
    if (this.#at === 0) return this.#ring
    return Buffer.concat([this.#ring.subarray(this.#at), this.#ring.subarray(0, this.#at)])
  }
}

/** In its own memory, not in a part of a shared buffer. */
function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(copy)
  return copy
}

/** Number of bytes at the front that belong to a UTF-8 character whose beginning is gone. */
function continuationBytes(bytes: Buffer): number {
  let count = 0
  while (count < 3 && count < bytes.length && (bytes[count]! & 0xc0) === 0x80) count++
  return count
}
