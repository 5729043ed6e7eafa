/**
 * The output of a process: read as streams, or all at once at its end if it ends before streams are worth
 * their cost.
 */
import { closeSync, readSync } from 'node:fs'
import { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { noteSpent } from '../../lib/node-internals/spent-buffers.ts'
import type { Native } from './native.ts'

export type OutputName = 'stdout' | 'stderr' | 'pty'

export type Output = {
  readonly name: OutputName
  /** Reads it as this stream from now on, which closes it. */
  open(): Readable
  /** True if a reader would find nothing. */
  isEmpty?(): boolean
  /** Passes the available bytes on, without waiting. True if nobody can write any more; it is closed then. */
  drain?(onBytes: (bytes: Buffer) => void): boolean
}

/** The capacity of a pipe. */
const readBytes = 64 * 1024
/** Others may have the pipe and write without end. */
const maxReads = 16
const space = Buffer.allocUnsafeSlow(readBytes)

type PipeNative = Pick<Native, 'waitingBytes' | 'stateOf'>

/** Our end of a pipe that nobody else reads. */
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

  drain(onBytes: (bytes: Buffer) => void): boolean {
    for (let read = 0; read < maxReads; read++) {
      const { hasBytes, isClosed } = this.#native.stateOf(this.#fd)
      const bytes = hasBytes ? readSync(this.#fd, space, 0, readBytes, null) : 0
      if (bytes > 0) onBytes(Buffer.from(space.subarray(0, bytes)))
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

  /** `onClose` is called when the last open stream has closed. */
  constructor(outputs: Output[], onBytes: (name: OutputName, bytes: Buffer) => void, onClose: () => void) {
    this.#outputs = outputs
    this.#onBytes = onBytes
    this.#onClose = onClose
    this.#openCount = outputs.length
  }

  /** True if reading can wait until the process has ended. */
  get canWait(): boolean {
    return this.#outputs.every((output) => output.drain !== undefined)
  }

  get areStreams(): boolean {
    return this.#streams !== undefined
  }

  get areClosed(): boolean {
    return this.#openCount === 0
  }

  /** True if there is no unread output. */
  get areEmpty(): boolean {
    return this.#outputs.every((output) => output.isEmpty?.() ?? false)
  }

  /** Reads them as streams from now on. */
  open(): void {
    this.#streams ??= this.#outputs.map((output) => this.#open(output))
  }

  /**
   * Reads the available bytes of outputs that are not streams yet; outputs that others still hold open become
   * streams.
   */
  drain(): void {
    if (this.#streams) return
    const blocked = this.#outputs.filter(
      (output) => !output.drain?.((bytes) => this.#onBytes(output.name, bytes)),
    )
    this.#openCount = blocked.length
    this.#streams = blocked.map((output) => this.#open(output))
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
