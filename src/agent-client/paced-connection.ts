/**
 * A connection that passes bytes to Node's HTTP parser at a limited pace. The parser calls back for every
 * chunk and every head, so chunks of one byte cost a hundred times their size: line ends count towards the
 * pace.
 */
import { connect, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import type { Endpoint } from '../core/ports/driver.ts'
import { type Clock, sleep, systemClock } from '../lib/clock.ts'
import type { Pace } from '../lib/pace.ts'

/** Number of bytes to pass to the parser at once. */
const pieceBytes = 16 * 1024
const lineCost = 512
/** A piece with more line ends than this keeps the parser busy for long, so other work gets a turn first. */
const manyLines = 256

export class PacedConnection extends Duplex {
  readonly #socket: Socket
  readonly #paces: readonly Pace[]
  readonly #clock: Clock
  #onRead: (() => void) | undefined

  constructor({ host, port }: Endpoint, paces: readonly Pace[], clock = systemClock) {
    super()
    this.#socket = connect(port, host)
    this.#paces = paces
    this.#clock = clock
    this.#pump().catch((error) => this.destroy(error))
  }

  async #pump(): Promise<void> {
    for await (const bytes of this.#socket as AsyncIterable<Buffer>) {
      for (let at = 0; at < bytes.length; at += pieceBytes)
        await this.#hand(bytes.subarray(at, at + pieceBytes))
    }
    this.push(null)
  }

  async #hand(piece: Buffer): Promise<void> {
    const lines = countLineEnds(piece)
    const cost = piece.length + lines * lineCost
    if (!this.push(piece)) await new Promise<void>((resolve) => (this.#onRead = resolve))
    if (lines > manyLines) await turn()
    const waitMs = Math.max(...this.#paces.map((pace) => pace.spend(cost)))
    if (waitMs > 0) await sleep(this.#clock, waitMs)
  }

  override _read(): void {
    this.#onRead?.()
    this.#onRead = undefined
  }

  override _write(bytes: Buffer, _: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(bytes, done)
  }

  override _final(done: () => void): void {
    this.#socket.end(done)
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy()
    this.#onRead?.()
    done(error)
  }
}

function countLineEnds(bytes: Buffer): number {
  let count = 0
  for (let at = bytes.indexOf('\r\n'); at >= 0; at = bytes.indexOf('\r\n', at + 2)) count++
  return count
}
