/**
 * Splits a zstd stream at the ends of its frames. Node's decompressor accepts any number of frames, but drops
 * the data after the end of one in the same piece; layers of many frames are common (zstd:chunked).
 */
import { badLayer } from './bad-layer.ts'

const magic = 0xfd2fb528
const skippableMagic = 0x184d2a50
const dictionarySizes = [0, 1, 2, 4]
const contentSizes = [0, 2, 4, 8]

type Expecting = 'magic' | 'skippable size' | 'descriptor' | 'block header' | 'bytes'

export class ZstdFrames {
  #expecting: Expecting = 'magic'
  /** The part of the stream's structure that is being read; a piece may end inside it. */
  #field = Buffer.alloc(0)
  #bytesLeft = 0
  #afterBytes: Expecting = 'magic'
  #hasChecksum = false

  finish(): void {
    if (!this.#betweenFrames()) throw badLayer('its zstd data ends too early')
  }

  /** Yields the pieces of this chunk, none with bytes of two frames. */
  *split(chunk: Buffer): Generator<Buffer> {
    let from = 0
    let at = 0
    while (at < chunk.length) {
      at += this.#advance(chunk, at)
      if (!this.#betweenFrames()) continue
      yield chunk.subarray(from, at)
      from = at
    }
    if (from < chunk.length) yield chunk.subarray(from)
  }

  #betweenFrames(): boolean {
    return this.#expecting === 'magic' && this.#field.length === 0
  }

  #advance(chunk: Buffer, at: number): number {
    if (this.#expecting === 'bytes') {
      const used = Math.min(this.#bytesLeft, chunk.length - at)
      this.#bytesLeft -= used
      if (this.#bytesLeft === 0) this.#expecting = this.#afterBytes
      return used
    }
    const size = { magic: 4, 'skippable size': 4, descriptor: 1, 'block header': 3 }[this.#expecting]
    const part = chunk.subarray(at, at + size - this.#field.length)
    this.#field = Buffer.concat([this.#field, part])
    if (this.#field.length === size) {
      const field = this.#field
      this.#field = Buffer.alloc(0)
      this.#understand(field)
    }
    return part.length
  }

  #understand(field: Buffer): void {
    if (this.#expecting === 'magic') this.#beginFrame(field.readUInt32LE())
    else if (this.#expecting === 'skippable size') this.#expectBytes(field.readUInt32LE(), 'magic')
    else if (this.#expecting === 'descriptor') this.#readDescriptor(field[0]!)
    else this.#readBlockHeader(field.readUIntLE(0, 3))
  }

  #beginFrame(found: number): void {
    const isSkippable = (found & 0xfffffff0) >>> 0 === skippableMagic
    if (!isSkippable && found !== magic) throw badLayer('its zstd data is damaged')
    this.#expecting = isSkippable ? 'skippable size' : 'descriptor'
  }

  #readDescriptor(descriptor: number): void {
    const singleSegment = (descriptor >> 5) & 1
    this.#hasChecksum = ((descriptor >> 2) & 1) === 1
    const contentSize = contentSizes[descriptor >> 6]! || singleSegment
    this.#expectBytes(1 - singleSegment + dictionarySizes[descriptor & 3]! + contentSize, 'block header')
  }

  #readBlockHeader(header: number): void {
    const isLast = (header & 1) === 1
    const repeatsOneByte = ((header >> 1) & 3) === 1
    const checksum = isLast && this.#hasChecksum ? 4 : 0
    this.#expectBytes((repeatsOneByte ? 1 : header >> 3) + checksum, isLast ? 'magic' : 'block header')
  }

  #expectBytes(count: number, then: Expecting): void {
    this.#bytesLeft = count
    this.#afterBytes = then
    this.#expecting = count === 0 ? then : 'bytes'
  }
}
