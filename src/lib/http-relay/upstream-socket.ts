/** Connections to servers whose bytes can be taken before Node's HTTP parser copies them. */
import { connect, type Socket, type TcpNetConnectOpts } from 'node:net'

/** A consumer that takes over the bytes of a connection. */
type Consumer = {
  /** The bytes are read into this. */
  buffer: Buffer
  /** Returning false stops reading until the socket is resumed. The bytes stay valid until then. */
  onBytes(bytes: Buffer): boolean
}

type Reading = { taker: Consumer | undefined; mayReadMuch: boolean; isFull: boolean }

/** One buffer for all connections: each fills and empties it within one callback. */
const much = Buffer.allocUnsafeSlow(64 * 1024)
/** Size of a read until a connection sends more: the bytes of one read are handled in one go, whatever their cost. */
const little = much.subarray(0, 4 * 1024)
const readings = new WeakMap<object, Reading>()

export function connectUpstream(options: TcpNetConnectOpts): Socket {
  const reading: Reading = { taker: undefined, mayReadMuch: true, isFull: false }
  const socket: Socket = connect({
    ...options,
    onread: {
      buffer: () => reading.taker?.buffer ?? (reading.mayReadMuch && reading.isFull ? much : little),
      callback(length, buffer): boolean {
        const bytes = (buffer as Buffer).subarray(0, length)
        const { taker } = reading
        reading.isFull = length === buffer.length || (reading.isFull && length > little.length / 2)
        if (!taker) return socket.push(Buffer.from(bytes))
        return taker.onBytes(buffer === taker.buffer ? bytes : Buffer.from(bytes))
      },
    },
  })
  readings.set(socket, reading)
  return socket
}

/** How to take over the bytes of a connection that was opened here. */
export function consumerOf(socket: Socket): ((taker: Consumer) => void) | undefined {
  const reading = readings.get(socket)
  if (!reading) return undefined
  return (taker) => {
    reading.taker = taker
  }
}

/** Makes each later read small, for a peer whose bytes cost far more work than others'. */
export function readLittleAtOnce(socket: Socket): void {
  const reading = readings.get(socket)
  if (reading) reading.mayReadMuch = false
}
