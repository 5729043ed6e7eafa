/**
 * Large answers of known length go past Node's parser, which would copy every byte to count it: through one
 * buffer from connection to connection. The parser then loses its position, so the sandbox's connection is not
 * used again.
 */
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { noteSpent } from '../node-internals/spent-buffers.ts'
import type { BodyFlow } from './body-flow.ts'
import { consumerOf } from './upstream-socket.ts'

const bulkFrom = 1024 * 1024
const readAtOnce = 256 * 1024

/** Takes over the rest of an answer of this length from `flow`, which is then detached. */
export function takeBulk(
  upstream: ClientRequest,
  incoming: IncomingMessage,
  length: number,
  response: ServerResponse,
  flow: BodyFlow,
): void {
  const { socket } = incoming
  const consume = consumerOf(socket)
  let left = length
  // Only a real socket reports when the bytes of the shared buffer have been written.
  if (!consume || !(left >= bulkFrom) || !(response.socket instanceof Socket)) return
  const onBytes = (bytes: Buffer): boolean => {
    const mine = bytes.subarray(0, left)
    left -= mine.length
    // Reading stops until the bytes are written, because the next bytes overwrite the same buffer.
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
    // All bytes that the parser has read must have been passed on.
    if (left === 0 || incoming.readableLength > 0 || socket.readableLength > 0) return
    incoming.off('data', watch)
    flow.detach()
    noteSpent(readAtOnce)
    consume({ buffer: Buffer.allocUnsafeSlow(readAtOnce), onBytes })
  }
  incoming.on('data', watch)
}
