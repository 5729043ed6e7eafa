/** Messages of a Connect stream with JSON: a byte of flags, four of length, then the message. */
import { AppError } from './app-error.ts'

const headBytes = 5
const endOfStream = 2

type ConnectFrame<Message> = { isLast: boolean; message: Message }

export function connectFrame(message: unknown): Buffer {
  const body = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(headBytes)
  head.writeUInt32BE(body.length, 1)
  return Buffer.concat([head, body])
}

/** Rejects a message that says of itself that it is larger than `maxBytes`. */
export async function* connectFramesIn<Message>(
  stream: AsyncIterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<ConnectFrame<Message>> {
  let rest = Buffer.alloc(0)
  for await (const chunk of stream) {
    rest = Buffer.concat([rest, chunk])
    while (rest.length >= headBytes) {
      const length = rest.readUInt32BE(1)
      if (length > maxBytes) {
        throw new AppError('payload_too_large', 'The sandbox sent a message without end.')
      }
      if (rest.length < headBytes + length) break
      const isLast = (rest[0]! & endOfStream) !== 0
      yield { isLast, message: JSON.parse(rest.toString('utf8', headBytes, headBytes + length)) as Message }
      rest = rest.subarray(headBytes + length)
    }
  }
}
