import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'

/** An HTTP server, as those who answer its requests see it. */
export interface RequestSource {
  on(
    event: 'request' | 'checkContinue',
    listener: (request: IncomingMessage, response: ServerResponse) => void,
  ): unknown
  on(event: 'upgrade', listener: (request: IncomingMessage, socket: Duplex, head: Buffer) => void): unknown
}
