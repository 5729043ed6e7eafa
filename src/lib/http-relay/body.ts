/** Streams the body of a message from one connection to another, as fast as its reader. */
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http'
import { noteSpent } from '../spent-buffers.ts'
import { trailerPairs } from './headers.ts'

/** Up to here a body is cheaper to copy than to write by itself. */
const smallBody = 4096

type Sink = ClientRequest | ServerResponse

/** `ownTrailers`: names that do not cross; null: no trailers do. */
export function streamAnswer(
  incoming: IncomingMessage,
  response: ServerResponse,
  ownTrailers: ReadonlySet<string> | null,
): void {
  const length = Number(incoming.headers['content-length'])
  const isSmall = length > 0 && length <= smallBody && response.req.method !== 'HEAD'
  if (isSmall) streamSmall(incoming, response, length)
  else streamBody(incoming, response, ownTrailers)
}

/** The head goes out with the first piece, or by itself if that takes long. */
export function streamBody(
  source: IncomingMessage,
  sink: Sink,
  ownTrailers: ReadonlySet<string> | null,
): void {
  let begun = false
  source.on('data', (chunk: Buffer) => {
    begun = true
    noteSpent(chunk.length)
  })
  if (ownTrailers) {
    source.once('end', () => {
      if (source.rawTrailers.length > 0) addTrailers(sink, source.rawTrailers, ownTrailers)
    })
  }
  source.pipe(sink)
  flushUnless(() => begun, sink)
}

/** Head and body leave as one piece if the body comes as one. */
function streamSmall(incoming: IncomingMessage, response: ServerResponse, length: number): void {
  let begun = false
  incoming.once('data', (chunk: Buffer) => {
    begun = true
    if (chunk.length === length) {
      noteSpent(chunk.length)
      // Node joins a head with text, but writes a buffer beside it.
      response.end(chunk.toString('latin1'), 'latin1')
    } else {
      incoming.unshift(chunk)
      streamBody(incoming, response, null)
    }
  })
  flushUnless(() => begun, response)
}

function flushUnless(hasBegun: () => boolean, sink: Sink): void {
  setImmediate(() => {
    if (!hasBegun() && !sink.writableEnded && !sink.destroyed) sink.flushHeaders()
  })
}

function addTrailers(sink: Sink, rawTrailers: readonly string[], own: ReadonlySet<string>): void {
  try {
    sink.addTrailers(trailerPairs(rawTrailers, own))
  } catch {
    // Malformed trailers are dropped; the body before them is whole.
  }
}
