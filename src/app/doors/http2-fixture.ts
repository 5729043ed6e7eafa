/** For tests: a TLS listener, and a client that speaks HTTP/2 frame by frame, as no well-behaved one would. */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect, type TLSSocket } from 'node:tls'
import { issueCertificate, makeAuthority } from '../../lib/certificates.ts'
import { newUUID } from '../../lib/ids.ts'
import { createListener, type Listener } from './http-server.ts'

export const frameTypes = { data: 0, headers: 1, reset: 3, settings: 4, ping: 6, goaway: 7, continuation: 9 }
export const endStream = 1
const endHeaders = 4

const authority = makeAuthority('http2 frames test')
const leaf = issueCertificate(authority, { names: ['e2b.test'], days: 1 })

type Handler = (request: IncomingMessage, response: ServerResponse) => void

/**
 * Listens on an abstract Unix socket, for which the kernel buffers some hundred kilobytes if a client does not read. For a
 * TCP connection the kernel buffers up to tens of megabytes, more on a busy machine.
 */
export async function startListener(handle: Handler): Promise<Listener> {
  const listener = createListener({}, { cert: Buffer.from(leaf.certificate), key: Buffer.from(leaf.key) })
  listener.server.on('request', handle)
  listener.server.listen(`\0warren-http2-${newUUID()}`)
  await once(listener.server, 'listening')
  return listener
}

type Frame = { type: number; flags: number; stream: number; length: number; payload: Buffer }

export class RawClient {
  readonly #socket: TLSSocket
  #received = Buffer.alloc(0)
  #nextStream = 1

  private constructor(socket: TLSSocket) {
    this.#socket = socket
    socket.on('error', () => {})
    socket.on('data', (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk])
    })
    socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
    this.send(4, 0, 0, Buffer.alloc(0))
  }

  static async open(listener: Listener): Promise<RawClient> {
    const path = listener.server.address() as string
    const ca = authority.certificate
    const socket = connect({ path, servername: 'e2b.test', ca, ALPNProtocols: ['h2'] })
    await once(socket, 'secureConnect')
    return new RawClient(socket)
  }

  send(type: number, flags: number, stream: number, payload: Buffer): void {
    const head = Buffer.alloc(9)
    head.writeUIntBE(payload.length, 0, 3)
    head.set([type, flags], 3)
    head.writeUInt32BE(stream, 5)
    this.#socket.write(Buffer.concat([head, payload]))
  }

  /** The fields as HPACK writes them without its tables. */
  static encode(fields: [name: string, value: string][]): Buffer {
    const text = (part: string) => [
      Buffer.from([Buffer.byteLength(part, 'latin1')]),
      Buffer.from(part, 'latin1'),
    ]
    return Buffer.concat(fields.flatMap(([name, value]) => [Buffer.from([0]), ...text(name), ...text(value)]))
  }

  /** Sends a head; without a body unless asked for one. Gives the number of its stream. */
  request(fields: [name: string, value: string][], body?: Buffer): number {
    const stream = this.#nextStream
    this.#nextStream += 2
    this.send(
      frameTypes.headers,
      body ? endHeaders : endHeaders | endStream,
      stream,
      RawClient.encode(fields),
    )
    if (body) this.send(frameTypes.data, endStream, stream, body)
    return stream
  }

  frames(): Frame[] {
    const frames: Frame[] = []
    for (let at = 0; at + 9 <= this.#received.length; ) {
      const length = this.#received.readUIntBE(at, 3)
      const [type, flags] = [this.#received[at + 3]!, this.#received[at + 4]!]
      const payload = this.#received.subarray(at + 9, at + 9 + length)
      frames.push({ length, type, flags, stream: this.#received.readUInt32BE(at + 5), payload })
      at += 9 + length
    }
    return frames
  }

  /** Until the stream was answered to its end, or reset, or the connection is over. */
  async settled(stream: number): Promise<void> {
    const isLast = (frame: Frame) =>
      frame.type === frameTypes.goaway ||
      (frame.stream === stream &&
        (frame.type === frameTypes.reset || (frame.type <= 1 && frame.flags & endStream)))
    while (!this.frames().some(isLast) && !this.#socket.destroyed) {
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }

  get isOver(): boolean {
    return this.#socket.destroyed || this.frames().some(({ type }) => type === frameTypes.goaway)
  }

  stopReading(): void {
    this.#socket.pause()
  }

  /** Bytes that were sent and are still in this process, because the server has not read those before them. */
  get unsentBytes(): number {
    return this.#socket.writableLength
  }

  close(): void {
    this.#socket.destroy()
  }
}

export const get = (path: string): [string, string][] => [
  [':method', 'GET'],
  [':scheme', 'https'],
  [':authority', 'e2b.test'],
  [':path', path],
]
