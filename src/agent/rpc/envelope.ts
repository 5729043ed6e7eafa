/** Messages within a stream: a byte of flags, four bytes of length, then the message. */
import { RpcError } from './rpc-error.ts'

/** Limit for one message, of a stream or of a single call. */
export const largestMessage = 32 * 1024 * 1024

const headBytes = 5
const compressed = 1
export const endOfStream = 2

/** A message in its envelope. Both texts have one character per byte, so that they can be concatenated. */
export function envelope(message: string, flags = 0): string {
  const { length } = message
  const head = [flags, length >>> 24, (length >> 16) & 255, (length >> 8) & 255, length & 255]
  return String.fromCharCode(...head) + message
}

/** Splits incoming bytes into messages; never holds more than has arrived. */
export class EnvelopeReader {
  #chunks: Buffer[] = []
  #bufferedBytes = 0
  /** Number of bytes that must have arrived before there is something new to parse. */
  #wantedBytes = headBytes

  /** Returns the messages that are complete with these bytes. */
  push(bytes: Buffer): Buffer[] {
    this.#chunks.push(bytes)
    this.#bufferedBytes += bytes.length
    const messages: Buffer[] = []
    while (this.#bufferedBytes >= this.#wantedBytes) {
      const buffered = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks)
      const end = headBytes + lengthIn(buffered)
      this.#buffer(buffered, end)
      if (buffered.length < end) break
      if (buffered[0]! & compressed) {
        throw new RpcError('internal', 'received compressed envelope, but do not know how to decompress')
      }
      if (!(buffered[0]! & endOfStream)) messages.push(buffered.subarray(headBytes, end))
      this.#buffer(buffered.subarray(end), headBytes)
    }
    return messages
  }

  #buffer(bytes: Buffer, wantedBytes: number): void {
    this.#chunks = bytes.length === 0 ? [] : [bytes]
    this.#bufferedBytes = bytes.length
    this.#wantedBytes = wantedBytes
  }

  /** Call it when no more bytes will come. */
  end(): void {
    if (this.#bufferedBytes > 0) throw new RpcError('invalid_argument', 'protocol error: incomplete envelope')
  }
}

function lengthIn(head: Buffer): number {
  const length = head.readUInt32BE(1)
  if (length <= largestMessage) return length
  throw new RpcError('resource_exhausted', `message size ${length} is larger than ${largestMessage}`)
}
