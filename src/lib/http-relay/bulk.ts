/**
 * Large answers of known length go past Node's parser, which would copy every byte to count it: through one
 * buffer from connection to connection. The parser loses its place by that, so the sandbox's connection is not
 * used again.
 */
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { noteSpent } from '../node-internals/spent-buffers.ts'
import type { BodyFlow } from './body-flow.ts'
import { takeOverOf } from './upstream-socket.ts'

const bulkFrom = 1024 * 1024
const readAtOnce = 256 * 1024

/** Takes over a streaming answer of `length` bytes; `flow` is detached once this function carries the rest. */
export function takeBulk(
  upstream: ClientRequest,
  incoming: IncomingMessage,
  length: number,
  response: ServerResponse,
  flow: BodyFlow,
): void {
  const { socket } = incoming
  const takeOver = takeOverOf(socket)
  let left = length
  // Only a real socket tells when bytes have left the buffer that the next ones come into.
  if (!takeOver || !(left >= bulkFrom) || !(response.socket instanceof Socket)) return
  const take = (bytes: Buffer): boolean => {
    const mine = bytes.subarray(0, left)
    left -= mine.length
    // Stopped until they are out: the next bytes come into the same buffer.
    response.write(mine, () => socket.resume())
    if (left === 0) {
      // To the parser the answer is cut short.
      incoming.removeAllListeners('error').on('error', () => {})
      upstream.destroy()
      response.end()
    }
    return false
  }
  const watch = (chunk: Buffer) => {
    left -= chunk.length
    // All that the parser has seen must have been passed on.
    if (left === 0 || incoming.readableLength > 0 || socket.readableLength > 0) return
    incoming.off('data', watch)
    flow.detach()
    noteSpent(readAtOnce)
    takeOver({ buffer: Buffer.allocUnsafeSlow(readAtOnce), take })
  }
  incoming.on('data', watch)
}
