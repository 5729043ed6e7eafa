import type { FileHandle } from 'node:fs/promises'
import { Readable } from 'node:stream'

const pieceBytes = 256 * 1024

/**
 * Streams `length` bytes of a file, no more if it grows meanwhile. Fails if there are fewer, because the
 * reader was told the length. Closes the file.
 */
export class FileStream extends Readable {
  readonly #file: FileHandle
  #position: number
  #left: number

  constructor(file: FileHandle, start: number, length: number) {
    super({ highWaterMark: pieceBytes })
    this.#file = file
    this.#position = start
    this.#left = length
  }

  override _read(): void {
    if (this.#left === 0) {
      this.push(null)
      return
    }
    const piece = Buffer.allocUnsafe(Math.min(pieceBytes, this.#left))
    this.#file.read(piece, 0, piece.length, this.#position).then(
      ({ bytesRead }) => {
        if (bytesRead === 0) {
          this.destroy(new Error('The file became shorter while it was read.'))
          return
        }
        this.#position += bytesRead
        this.#left -= bytesRead
        this.push(piece.subarray(0, bytesRead))
      },
      (error) => this.destroy(error),
    )
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#file.close().then(
      () => done(error),
      (closing) => done(error ?? closing),
    )
  }
}
