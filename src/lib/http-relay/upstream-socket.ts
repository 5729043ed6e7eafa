/** Connections to sandboxes whose bytes can be taken before Node's HTTP parser copies them. */
import { connect, type Socket, type TcpNetConnectOpts } from 'node:net'

/** Who takes the bytes of a connection from now on. */
export type Taker = {
  /** The bytes are read into this. */
  buffer: Buffer
  /** False stops the reading, until the socket is resumed. The bytes hold until it is. */
  take(bytes: Buffer): boolean
}

/** Filled and emptied within one callback, so all connections can share it. */
const shared = Buffer.allocUnsafeSlow(64 * 1024)
const takeOvers = new WeakMap<Socket, (taker: Taker) => void>()

export function connectUpstream(options: TcpNetConnectOpts): Socket {
  let taker: Taker | undefined
  const socket: Socket = connect({
    ...options,
    onread: {
      buffer: () => taker?.buffer ?? shared,
      callback(length, buffer): boolean {
        const bytes = (buffer as Buffer).subarray(0, length)
        if (!taker) return socket.push(Buffer.from(bytes))
        return taker.take(buffer === shared ? Buffer.from(bytes) : bytes)
      },
    },
  })
  takeOvers.set(socket, (given) => {
    taker = given
  })
  return socket
}

/** How to take over the bytes of a connection that was opened here. */
export function takeOverOf(socket: Socket): ((taker: Taker) => void) | undefined {
  return takeOvers.get(socket)
}
