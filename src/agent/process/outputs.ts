/** What a process writes: read as streams, or at once at its end where it is over before streams are worth their price. */
import { closeSync, readSync } from 'node:fs'
import { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { noteSpent } from '../../lib/node-internals/spent-buffers.ts'
import type { Native } from './native.ts'

export type OutputName = 'stdout' | 'stderr' | 'pty'

export type Output = {
  readonly name: OutputName
  /** From now on it is read as this stream, which closes it. */
  open(): Readable
  /** Whether a reader would find nothing. */
  isEmpty?(): boolean
  /** Hands over what is there, without waiting. True when nobody can write any more; it is closed then. */
  drain?(take: (bytes: Buffer) => void): boolean
}

/** As much as a pipe holds. */
const readBytes = 64 * 1024
/** Others may have the pipe and write without end. */
const mostReads = 16
const space = Buffer.allocUnsafeSlow(readBytes)

type PipeNative = Pick<Native, 'waitingBytes' | 'stateOf'>

/** Our end of a pipe, of which nobody else reads. */
export class PipeOutput implements Output {
  readonly name: OutputName
  readonly #fd: number
  readonly #native: PipeNative

  constructor(name: OutputName, fd: number, native: PipeNative) {
    this.name = name
    this.#fd = fd
    this.#native = native
  }

  isEmpty(): boolean {
    return this.#native.waitingBytes(this.#fd) === 0
  }

  open(): Socket {
    return new Socket({ fd: this.#fd, readable: true, writable: false })
  }

  drain(take: (bytes: Buffer) => void): boolean {
    for (let read = 0; read < mostReads; read++) {
      const { hasBytes, isClosed } = this.#native.stateOf(this.#fd)
      const bytes = hasBytes ? readSync(this.#fd, space, 0, readBytes, null) : 0
      if (bytes > 0) take(Buffer.from(space.subarray(0, bytes)))
      if (isClosed && bytes < readBytes) {
        this.close()
        return true
      }
      if (!hasBytes) return false
    }
    return false
  }

  close(): void {
    closeSync(this.#fd)
  }
}

/** All outputs of one process. */
export class Outputs {
  readonly #outputs: Output[]
  readonly #onBytes: (name: OutputName, bytes: Buffer) => void
  readonly #onClose: () => void
  #streams: Readable[] | undefined
  #openCount: number

  /** `onClose` is called when a stream was the last that was open. */
  constructor(outputs: Output[], onBytes: (name: OutputName, bytes: Buffer) => void, onClose: () => void) {
    this.#outputs = outputs
    this.#onBytes = onBytes
    this.#onClose = onClose
    this.#openCount = outputs.length
  }

  /** Whether they can wait to be read until the process has ended. */
  get canWait(): boolean {
    return this.#outputs.every((output) => output.drain !== undefined)
  }

  get areStreams(): boolean {
    return this.#streams !== undefined
  }

  get areClosed(): boolean {
    return this.#openCount === 0
  }

  /** Whether the process has written nothing that was not read yet. */
  get areEmpty(): boolean {
    return this.#outputs.every((output) => output.isEmpty?.() ?? false)
  }

  /** Reads them as streams from now on. */
  open(): void {
    this.#streams ??= this.#outputs.map((output) => this.#open(output))
  }

  /** Reads what is there of those that are not yet streams; those that others still hold open become some. */
  drain(): void {
    if (this.#streams) return
    const held = this.#outputs.filter(
      (output) => !output.drain?.((bytes) => this.#onBytes(output.name, bytes)),
    )
    this.#openCount = held.length
    this.#streams = held.map((output) => this.#open(output))
  }

  pause(): void {
    for (const stream of this.#streams ?? []) stream.pause()
  }

  resume(): void {
    for (const stream of this.#streams ?? []) if (stream.isPaused()) stream.resume()
  }

  #open(output: Output): Readable {
    const stream = output.open()
    stream.on('data', (bytes: Buffer) => {
      noteSpent(bytes.length)
      this.#onBytes(output.name, bytes)
    })
    stream.on('error', () => {})
    stream.on('close', () => {
      this.#openCount--
      if (this.#openCount === 0) this.#onClose()
    })
    return stream
  }
}
