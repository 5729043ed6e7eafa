/** Splits the output of a command into lines, each stream separately. */
import { StringDecoder } from 'node:string_decoder'
import type { CommandOutput } from '../../core/ports/agent.ts'

/** A longer line is reported in pieces of this many characters. */
const longestLine = 8192

type Stream = CommandOutput['stream']

export function linesOf(onLine: (stream: Stream, line: string) => void) {
  const open = new Map<Stream, { decoder: StringDecoder; rest: string }>()
  return {
    add({ stream, data }: CommandOutput): void {
      const state = open.get(stream) ?? { decoder: new StringDecoder('utf8'), rest: '' }
      open.set(stream, state)
      const lines = (state.rest + state.decoder.write(data)).split(/\r?\n/)
      state.rest = lines.pop() ?? ''
      for (const line of lines) onLine(stream, line)
      while (state.rest.length > longestLine) {
        onLine(stream, state.rest.slice(0, longestLine))
        state.rest = state.rest.slice(longestLine)
      }
    },
    /** Reports the last line of each stream, which may have no line end. */
    end(): void {
      for (const [stream, { decoder, rest }] of open) {
        const last = rest + decoder.end()
        if (last !== '') onLine(stream, last)
      }
      open.clear()
    },
  }
}
