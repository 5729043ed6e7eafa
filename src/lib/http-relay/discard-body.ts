import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Clock, systemClock } from '../clock.ts'

const lingerMs = 10_000

/**
 * Reads on after an early answer, so that a client still sending sees the answer instead of a reset, but not for
 * longer than a client needs to notice it.
 */
export function discardBody(
  request: IncomingMessage,
  response: ServerResponse,
  clock: Clock = systemClock,
): void {
  if (request.complete) return
  request.resume()
  const linger = () => {
    if (request.complete) return
    const cancel = clock.after(lingerMs, () => request.socket.destroy())
    request.once('close', cancel)
  }
  if (response.writableFinished) linger()
  else response.once('finish', linger)
}
