/** The terminal of the command, or the files and pipes that replace one. */
import type { ReadStream, WriteStream } from 'node:tty'
import type { UserTerminal } from './remote-process.ts'

/** The usual default size of a screen. */
const usualSize = { cols: 80, rows: 24 }

export function createTerminal(input: ReadStream, output: WriteStream): UserTerminal {
  return {
    isTerminal: output.isTTY === true,
    size: () => (output.isTTY ? { cols: output.columns, rows: output.rows } : usualSize),
    onResize: (listener) => void output.on('resize', listener),
    takeKeys(listener, onEnd) {
      const isRaw = input.isTTY === true
      if (isRaw) input.setRawMode(true)
      input.on('data', listener).on('end', onEnd).resume()
      return () => {
        input.off('data', listener).off('end', onEnd).pause()
        if (isRaw) input.setRawMode(false)
        // Otherwise Node would wait for the next key.
        input.unref?.()
      }
    },
    write: (data) => void output.write(data),
  }
}
