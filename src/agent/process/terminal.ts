/** Our side of a process's terminal. */
import { closeSync, writeSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { AppError, errorText } from '../../lib/app-error.ts'
import { delay } from '../../lib/clock.ts'
import { systemErrorCode } from '../errors.ts'
import type { Native, TerminalSize } from './native.ts'

/** A terminal accepts what fits. These are the first and the longest pause before the rest is tried again. */
const firstPauseMs = 2
const longestPauseMs = 100

export class Terminal {
  readonly output: Readable
  /** True if the kernel tells the terminal's processes when its main process is killed. */
  readonly hangsUp: boolean
  #native: Native
  #fd: number | undefined

  /**
   * Takes over the descriptor. The output ends, and Node closes it, as soon as nobody has the other side
   * open. If we closed ours then, a process that has closed its streams and is about to exit would be killed
   * by the hang-up.
   */
  constructor(native: Native, fd: number) {
    this.#native = native
    this.#fd = fd
    this.hangsUp = native.hangsUp(fd)
    try {
      this.output = new (process.getBuiltinModule('node:tty').ReadStream)(native.duplicate(fd))
    } catch (error) {
      closeSync(fd)
      throw error
    }
  }

  /** Node's own stream would block the whole agent on a full terminal. */
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
    this.#native.resizeTerminal(this.#openDescriptor(), size)
  }

  close(): void {
    if (this.#fd === undefined) return
    this.output.destroy()
    closeSync(this.#fd)
    this.#fd = undefined
  }

  #writeSome(bytes: Uint8Array): number {
    const fd = this.#openDescriptor()
    try {
      return writeSync(fd, bytes)
    } catch (error) {
      if (systemErrorCode(error) === 'EAGAIN') return 0
      throw terminalError(errorText(error))
    }
  }

  // After a close, the number of a descriptor may mean another one.
  #openDescriptor(): number {
    if (this.#fd === undefined) throw terminalError('the terminal is closed')
    return this.#fd
  }
}

export function terminalError(text: string): AppError {
  return new AppError('internal', `error writing to pty: ${text}`)
}
