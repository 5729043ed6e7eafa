/** Our side of a process's terminal. */
import { writeSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { AppError, errorText } from '../../lib/app-error.ts'
import { delay } from '../../lib/clock.ts'
import { systemErrorCode } from '../errors.ts'
import type { Native, TerminalSize } from './native.ts'

/** A terminal takes what fits. These are the first and the longest pause before the rest is tried again. */
const firstPauseMs = 2
const longestPauseMs = 100

export class Terminal {
  readonly output: Readable
  /** Whether the kernel tells those who use it when its process is killed. */
  readonly hangsUp: boolean
  #native: Native
  #fd: number

  /** Takes the descriptor over: it closes with the output. */
  constructor(native: Native, fd: number) {
    this.#native = native
    this.#fd = fd
    this.hangsUp = native.hangsUp(fd)
    this.output = new (process.getBuiltinModule('node:tty').ReadStream)(fd)
  }

  /** Node's own stream would make the whole agent wait for a terminal that is full. */
  async write(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    let pauseMs = firstPauseMs
    for (let at = 0; at < bytes.length; ) {
      const written = this.#writeSome(bytes.subarray(at))
      at += written
      if (at === bytes.length) return
      pauseMs = written > 0 ? firstPauseMs : Math.min(pauseMs * 2, longestPauseMs)
      await delay(pauseMs, signal)
    }
  }

  resize(size: TerminalSize): void {
    this.#mustBeOpen()
    this.#native.resizeTerminal(this.#fd, size)
  }

  close(): void {
    this.output.destroy()
  }

  #writeSome(bytes: Uint8Array): number {
    this.#mustBeOpen()
    try {
      return writeSync(this.#fd, bytes)
    } catch (error) {
      if (systemErrorCode(error) === 'EAGAIN') return 0
      throw terminalError(errorText(error))
    }
  }

  // The number of a closed descriptor may name another one already.
  #mustBeOpen(): void {
    if (this.output.destroyed) throw terminalError('the terminal is closed')
  }
}

export function terminalError(text: string): AppError {
  return new AppError('internal', `error writing to pty: ${text}`)
}
