/** The standard input of a process that has one. */
import type { Writable } from 'node:stream'
import { AppError, errorText } from '../../lib/app-error.ts'
import { untilAborted } from '../../lib/until-aborted.ts'

export class Stdin {
  #stream: Writable

  constructor(stream: Writable) {
    this.#stream = stream
    stream.on('error', () => stream.destroy())
  }

  async write(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    const stream = this.#stream
    // The rest of an earlier, abandoned write goes first, so that never more than one waits in memory.
    if (stream.writableNeedDrain) await untilAborted(drained(stream), signal)
    if (!stream.writable) throw stdinError('stdin not enabled or closed')
    const written = new Promise<void>((resolve, reject) => {
      stream.write(bytes, (error) => (error ? reject(stdinError(errorText(error))) : resolve()))
    })
    await untilAborted(written, signal)
  }

  /** Ends the input of the process; a second call changes nothing. */
  close(): void {
    this.#stream.end()
  }

  destroy(): void {
    this.#stream.destroy()
  }
}

export function stdinError(text: string): AppError {
  return new AppError('internal', `error writing to stdin: ${text}`)
}

function drained(stream: Writable): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      stream.off('drain', done)
      stream.off('close', done)
      resolve()
    }
    stream.on('drain', done)
    stream.on('close', done)
  })
}
