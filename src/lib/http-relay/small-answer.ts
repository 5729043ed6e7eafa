/** Answers whose body is so small that head and body leave as one piece. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { noteSpent } from '../node-internals/spent-buffers.ts'
import { beginningOf } from './body-flow.ts'

/** Up to here a body is cheaper to copy than to write by itself. */
const smallBody = 4096

/** `length`: what the answer says of itself. One that has no body may still say how long it would be. */
export const isSmallAnswer = (length: number, status: number, method: string | undefined): boolean =>
  length > 0 && length <= smallBody && method !== 'HEAD' && status !== 204 && status !== 304

/** `otherwise` is called where the body comes in pieces. */
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
