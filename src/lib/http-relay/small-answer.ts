/** Answers whose body is so small that head and body leave as one piece. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { noteSpent } from '../spent-buffers.ts'
import { flushUnless } from './body-flow.ts'

/** Up to here a body is cheaper to copy than to write by itself. */
const smallBody = 4096

export function isSmallAnswer(incoming: IncomingMessage, method: string | undefined): boolean {
  const length = Number(incoming.headers['content-length'])
  return length > 0 && length <= smallBody && method !== 'HEAD'
}

/** `otherwise` is called where the body comes in pieces. */
export function sendSmallAnswer(
  incoming: IncomingMessage,
  response: ServerResponse,
  otherwise: () => void,
): void {
  let begun = false
  incoming.once('data', (chunk: Buffer) => {
    begun = true
    if (chunk.length === Number(incoming.headers['content-length'])) {
      noteSpent(chunk.length)
      // Node joins a head with text, but writes a buffer beside it.
      response.end(chunk.toString('latin1'), 'latin1')
    } else {
      incoming.unshift(chunk)
      otherwise()
    }
  })
  flushUnless(() => begun, response)
}
