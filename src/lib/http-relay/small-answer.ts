/** Writes the head and the body of a small answer in one piece. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { noteSpent } from '../node-internals/spent-buffers.ts'
import { beginningOf } from './body-flow.ts'

/** Up to this size, copying a body is cheaper than a separate write. */
const smallBody = 4096

/** `length` is the announced length. An answer without a body may still announce one. */
export const isSmallAnswer = (length: number, status: number, method: string | undefined): boolean =>
  length > 0 && length <= smallBody && method !== 'HEAD' && status !== 204 && status !== 304

/** Calls `otherwise` if the body comes in several pieces. */
export function sendSmallAnswer(
  incoming: IncomingMessage,
  length: number,
  response: ServerResponse,
  otherwise: () => void,
): void {
  const beginning = beginningOf(response)
  incoming.once('data', (chunk: Buffer) => {
    beginning.hasBegun = true
    if (chunk.length === length) {
      noteSpent(length)
      // Node joins a head with text, but writes a buffer beside it.
      response.end(chunk.toString('latin1'), 'latin1')
    } else {
      incoming.unshift(chunk)
      otherwise()
    }
  })
}
