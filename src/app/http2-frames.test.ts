/** HTTP/2 spoken by hand: what no well-behaved client would send, and how answers are cut into frames. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, it } from 'node:test'
import { connect, type TLSSocket } from 'node:tls'
import { issueCertificate, makeAuthority } from '../lib/certificates.ts'
import { createListener, type Listener } from './http-server.ts'

const authority = makeAuthority('http2 frames test')
const leaf = issueCertificate(authority, { names: ['e2b.test'], days: 1 })
const [headersType, dataType, resetType, goawayType] = [1, 0, 3, 7]
const endStream = 1

let listener: Listener
let handler: (request: IncomingMessage, response: ServerResponse) => void
before(async () => {
  const pair = { cert: Buffer.from(leaf.certificate), key: Buffer.from(leaf.key) }
  listener = createListener({}, pair)
  listener.server.on('request', (request, response) => handler(request, response))
  await listener.listen('127.0.0.1', 0)
})
after(() => listener.close(100))

type Frame = { type: number; flags: number; stream: number; length: number; payload: Buffer }

class RawClient {
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

  static async open(): Promise<RawClient> {
    const { port } = listener.server.address() as AddressInfo
    const ca = authority.certificate
    const socket = connect({ host: '127.0.0.1', port, servername: 'e2b.test', ca, ALPNProtocols: ['h2'] })
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

  /** Sends a head; without a body unless asked for one. Gives the number of its stream. */
  request(fields: [name: string, value: string][], body?: Buffer): number {
    const stream = this.#nextStream
    this.#nextStream += 2
    const text = (part: string) => [
      Buffer.from([Buffer.byteLength(part, 'latin1')]),
      Buffer.from(part, 'latin1'),
    ]
    const literals = fields.flatMap(([name, value]) => [Buffer.from([0]), ...text(name), ...text(value)])
    this.send(headersType, body ? 4 : 4 | endStream, stream, Buffer.concat(literals))
    if (body) this.send(dataType, endStream, stream, body)
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
      frame.type === goawayType ||
      (frame.stream === stream && (frame.type === resetType || (frame.type <= 1 && frame.flags & endStream)))
    while (!this.frames().some(isLast) && !this.#socket.destroyed) {
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }

  close(): void {
    this.#socket.destroy()
  }
}

const get = (path: string): [string, string][] => [
  [':method', 'GET'],
  [':scheme', 'https'],
  [':authority', 'e2b.test'],
  [':path', path],
]

it('no DATA frame is empty, apart from one that must end a stream of unknown length', async () => {
  handler = ({ url }, response) => {
    if (url === '/none') response.writeHead(204).end()
    else if (url === '/zero') response.writeHead(200, { 'Content-Length': 0 }).end()
    else if (url === '/known') response.end('known')
    else {
      response.write('first')
      setTimeout(() => response.end('last'), 20)
    }
  }
  const client = await RawClient.open()
  const streams = ['/none', '/zero', '/known', '/unknown'].map((path) => client.request(get(path)))
  for (const stream of streams) await client.settled(stream)
  client.close()
  const empty = client.frames().filter(({ type, length }) => type === dataType && length === 0)
  assert.deepEqual(
    empty.filter(({ flags, stream }) => !(flags & endStream) || stream !== streams[3]),
    [],
  )
})

const smuggled = Buffer.from('0\r\n\r\nGET /second HTTP/1.1\r\nHost: e2b.test\r\n\r\n')
const hostile: Record<string, [string, string][]> = {
  'a transfer coding': [...get('/first'), ['transfer-encoding', 'chunked']],
  'a length shorter than the body': [...get('/first'), ['content-length', '5']],
  'two lengths': [...get('/first'), ['content-length', '5'], ['content-length', '50']],
  'a line break in a value': [
    ...get('/first'),
    ['x-a', 'b\r\nContent-Length: 0\r\n\r\nGET /second HTTP/1.1'],
  ],
  'a line break in the path': get('/first HTTP/1.1\r\nHost: e2b.test\r\n\r\nGET /second'),
  'a space in the path': get('/first HTTP/1.1'),
  'a line break in the authority': [
    ...get('/first').filter(([name]) => name !== ':authority'),
    [':authority', 'e2b.test\r\n\r\nGET /second HTTP/1.1'],
  ],
  'a line break in the method': [[':method', 'GET /second HTTP/1.1\r\nX: y'], ...get('/first').slice(1)],
  'a colon in a name': [...get('/first'), ['content-length:', '5']],
  'a connection header': [...get('/first'), ['connection', 'x-a, host']],
  'no authority': get('/first').filter(([name]) => name !== ':authority'),
}

for (const [what, fields] of Object.entries(hostile)) {
  it(`${what} makes no second request of one`, async () => {
    const seen: string[] = []
    handler = async (request, response) => {
      seen.push(request.url ?? '')
      await request.toArray().catch(() => {})
      response.end()
    }
    const client = await RawClient.open()
    await client.settled(client.request(fields, smuggled))
    const next = await RawClient.open()
    await next.settled(next.request(get('/next')))
    client.close()
    next.close()
    assert.deepEqual(
      seen.filter((url) => url !== '/first'),
      ['/next'],
    )
  })
}
