/** Clients that take places of a server and give nothing for them: each opens one connection to a Warren with TLS. */
import net, { type Socket } from 'node:net'
import tls from 'node:tls'

export type SlowTarget = {
  port: number
  apiKey: string
  /** Host names of services that never answer, and that answer upgrades and then say nothing. */
  services: readonly string[]
}

type Field = [name: string, value: string]
const types = { data: 0, headers: 1, settings: 4 }
const endStream = 1
const endHeaders = 4

function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head.set([type, flags], 3)
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

/** As HPACK writes it without its tables. */
function text(value: string): Buffer {
  const bytes = Buffer.from(value)
  const length = bytes.length < 127 ? [bytes.length] : [127, bytes.length - 127]
  return Buffer.concat([Buffer.from(length), bytes])
}

const headers = (stream: number, flags: number, authority: string, path: string, more: Field[] = []) => {
  const fields: Field[] = [
    [':method', more.length > 0 ? 'POST' : 'GET'],
    [':scheme', 'https'],
    [':authority', authority],
    [':path', path],
    ...more,
  ]
  const block = fields.flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)])
  return frame(types.headers, flags, stream, Buffer.concat(block))
}

const opening = (settings = Buffer.alloc(0)) => [
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  frame(types.settings, 0, 0, settings),
]
/** No answer may send a byte of its body. */
const noWindow = Buffer.from([0, 4, 0, 0, 0, 0])

const head = (line: string, host: string, more = '') => `${line} HTTP/1.1\r\nHost: ${host}\r\n${more}\r\n`
const upgrade =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'

export type SlowClient = {
  open(): Socket
  /** Sends a byte of something that never ends now and then. */
  drips?: boolean
}

export const slowClients = (target: SlowTarget): Record<string, SlowClient> => {
  const { port, apiKey, services } = target
  const options = { port, host: '127.0.0.1', servername: 'localhost', rejectUnauthorized: false }
  let turn = 0
  const service = () => services[turn++ % services.length]!
  const plain = (first?: Buffer) => () => {
    const socket = net.connect(port, '127.0.0.1')
    if (first) socket.once('connect', () => socket.write(first))
    return socket
  }
  const http1 =
    (say: () => string, reads = true) =>
    () => {
      const socket = tls.connect({ ...options, ALPNProtocols: ['http/1.1'] }, () => {
        if (!reads) socket.pause()
        socket.write(say())
      })
      if (reads) socket.resume()
      return socket
    }
  const http2 = (say: () => Buffer[]) => () => {
    const socket = tls.connect({ ...options, ALPNProtocols: ['h2'] }, () =>
      socket.write(Buffer.concat(say())),
    )
    return socket.resume()
  }
  const body = 'Content-Length: 1000000\r\n'
  const stalled = (count: number) =>
    http2(() => [
      ...opening(noWindow),
      ...Array.from({ length: count }, (_, at) =>
        headers(1 + 2 * at, endStream | endHeaders, 'localhost', '/openapi.json'),
      ),
    ])
  return {
    'say nothing': { open: plain() },
    'stop in the handshake of TLS': { open: plain(Buffer.from([22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3])) },
    'send a head without end': {
      open: http1(() => 'GET / HTTP/1.1\r\nHost: localhost\r\nX: '),
      drips: true,
    },
    'send a body without end, without a key': {
      open: http1(() => `${head('POST /sandboxes', 'localhost', body)}{`),
      drips: true,
    },
    'send a body without end, with a key': {
      open: http1(() => `${head('POST /sandboxes', 'localhost', `X-API-Key: ${apiKey}\r\n${body}`)}{`),
      drips: true,
    },
    'read none of ten answers': {
      open: http1(() => head('GET /openapi.json', 'localhost').repeat(10), false),
    },
    'wait for a service': { open: http1(() => head('GET /', service())) },
    'send a service a body without end': {
      open: http1(() => `${head('POST /', service(), body)}a`),
      drips: true,
    },
    'say nothing on a WebSocket': { open: http1(() => head('GET /', service(), upgrade)) },
    'say nothing over HTTP/2': { open: http2(() => []) },
    'send a head without end over HTTP/2': {
      open: http2(() => [...opening(), headers(1, endStream, 'localhost', '/')]),
    },
    'send a body without end over HTTP/2': {
      open: http2(() => [
        ...opening(),
        headers(1, endHeaders, 'localhost', '/sandboxes', [['x-api-key', apiKey]]),
        frame(types.data, 0, 1, Buffer.from('{')),
      ]),
    },
    'wait for a service over HTTP/2': {
      open: http2(() => [...opening(), headers(1, endStream | endHeaders, service(), '/')]),
    },
    'read no answer over HTTP/2': { open: stalled(1) },
    'read none of 250 answers over HTTP/2': { open: stalled(250) },
  }
}
