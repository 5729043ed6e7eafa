/** The TLS listener with both protocols, spoken to by Node's own clients. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2'
import https from 'node:https'
import type { AddressInfo, LookupFunction } from 'node:net'
import { after, afterEach, before, beforeEach, it } from 'node:test'
import { issueCertificate, makeAuthority } from '../../lib/certificates.ts'
import { createListener, type Listener } from './http-server.ts'

const authority = makeAuthority('http2 test')
const leaf = issueCertificate(authority, { names: ['e2b.test', '*.e2b.test'], days: 1 })
const ca = authority.certificate

let listener: Listener
let port: number
let handler: (request: IncomingMessage, response: ServerResponse) => void
let client: ClientHttp2Session

before(async () => {
  listener = createListener(
    { keepAliveTimeout: 5000 },
    { cert: Buffer.from(leaf.certificate), key: Buffer.from(leaf.key) },
  )
  listener.server.on('request', (request, response) => handler(request, response))
  await listener.listen('127.0.0.1', 0)
  port = (listener.server.address() as AddressInfo).port
})
after(() => listener.close({ graceMs: 100 }))
beforeEach(async () => {
  client = connect(`https://api.e2b.test:${port}`, { ca, lookup: toLoopback })
  client.on('error', () => {})
  await once(client, 'connect')
})
afterEach(() => client.destroy())

const toLoopback: LookupFunction = (_name, { all }, done) =>
  all ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4)

async function answerOf(stream: ClientHttp2Stream) {
  const [headers] = await once(stream, 'response')
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk)
  if (stream.aborted) throw new Error(`aborted with ${stream.rstCode}`)
  return { status: headers[':status'], headers, body: Buffer.concat(chunks).toString() }
}

it('one port serves HTTP/2 and HTTP/1.1, as the client chooses', async () => {
  handler = (request, response) => response.end(`${request.httpVersion} ${request.headers.host}`)
  assert.equal((await answerOf(client.request({}))).body, `1.1 api.e2b.test:${port}`)
  const [response] = await once(
    https.get(`https://api.e2b.test:${port}/`, {
      ca,
      lookup: toLoopback,
    }),
    'response',
  )
  assert.equal((await response.toArray()).join(''), `1.1 api.e2b.test:${port}`)
})

it('method, path, headers, cookies and body arrive as they were sent, and so does the answer', async () => {
  let seen: unknown
  handler = async (request, response) => {
    const body = (await request.toArray()).join('')
    const { host: _host, connection: _connection, ...headers } = request.headers
    seen = { method: request.method, url: request.url, headers, body, from: request.socket.remoteAddress }
    response.writeHead(
      201,
      [
        ['Set-Cookie', 'a=1'],
        ['Set-Cookie', 'b=2'],
        ['X-Answer', 'yes'],
      ].flat(),
    )
    response.end('made')
  }
  const stream = client.request({
    ':method': 'PUT',
    ':path': '/a%20b?c=d',
    cookie: ['x=1', 'y=2'],
    'x-own': 'é',
  })
  stream.end('content')
  const { status, headers, body } = await answerOf(stream)
  assert.deepEqual(seen, {
    method: 'PUT',
    url: '/a%20b?c=d',
    headers: { cookie: 'x=1; y=2', 'x-own': 'é', 'transfer-encoding': 'chunked' },
    body: 'content',
    from: '127.0.0.1',
  })
  assert.deepEqual(
    [status, headers['set-cookie'], headers['x-answer'], body],
    [201, ['a=1', 'b=2'], 'yes', 'made'],
  )
})

it('an answer keeps all of its headers, also beyond a thousand, and those named like properties of objects', async () => {
  client.destroy()
  client = connect(`https://api.e2b.test:${port}`, { ca, lookup: toLoopback, maxHeaderListPairs: 10_000 })
  const many = Array.from({ length: 2000 }, (_, at) => [`x-${at}`, `${at}`]).flat()
  handler = (_, response) => {
    response.writeHead(200, [
      ...many,
      '__proto__',
      'a',
      '__proto__',
      'b',
      'content-security-policy',
      'sandbox',
    ])
    response.end()
  }
  const { headers } = await answerOf(client.request({}))
  assert.equal(headers['x-1999'], '1999')
  assert.equal(Object.getOwnPropertyDescriptor(headers, '__proto__')?.value, 'a, b')
  assert.equal(headers['content-security-policy'], 'sandbox')
})

it('an answer that repeats a header which should be unique arrives unchanged', async () => {
  handler = (_, response) => {
    response.writeHead(200, [
      ...['etag', 'a', 'etag', 'b'],
      ...['content-type', 'text/a', 'content-type', 'text/b'],
    ])
    response.end('whole')
  }
  const stream = client.request({})
  const raw = new Promise<string[]>((resolve) => {
    stream.once('response', (...event: unknown[]) => resolve(event[2] as string[]))
  })
  assert.equal((await answerOf(stream)).body, 'whole')
  const valuesOf = async (name: string) =>
    (await raw).filter((_, at, all) => at % 2 === 1 && all[at - 1] === name)
  assert.deepEqual(await valuesOf('etag'), ['a', 'b'])
  assert.deepEqual(await valuesOf('content-type'), ['text/a', 'text/b'])
})

it('a POST without a body and a HEAD have none on either side', async () => {
  handler = async (request, response) => {
    response.setHeader('X-Saw', `${(await request.toArray()).length}`)
    response.setHeader('Content-Length', 5).end('12345')
  }
  const post = client.request({ ':method': 'POST' }, { endStream: true })
  assert.equal((await answerOf(post)).headers['x-saw'], '0')
  const head = await answerOf(client.request({ ':method': 'HEAD' }))
  assert.deepEqual([head.status, head.headers['content-length'], head.body], [200, '5', ''])
})

it('a body streams both ways while the request is open, and large ones come whole', async () => {
  handler = (request, response) => void request.pipe(response)
  const stream = client.request({ ':method': 'POST' })
  for (const word of ['one', 'two']) {
    stream.write(word)
    assert.equal(String((await once(stream, 'data'))[0]), word)
  }
  stream.end()
  const large = client.request({ ':method': 'POST' })
  const block = Buffer.alloc(1024 * 1024, 'x')
  let length = 0
  large.on('data', (chunk: Buffer) => {
    length += chunk.length
  })
  for (let i = 0; i < 32; i++) if (!large.write(block)) await once(large, 'drain')
  large.end()
  await once(large, 'end')
  assert.equal(length, 32 * block.length)
})

it('a slow reader pauses the writer, and nothing piles up in between', async () => {
  let written = 0
  handler = (_request, response) => {
    const more = () => {
      while (response.write(Buffer.alloc(64 * 1024))) written += 64 * 1024
      response.once('drain', more)
    }
    more()
  }
  const stream = client.request({})
  await once(stream, 'response')
  await new Promise((resolve) => setTimeout(resolve, 300))
  assert.ok(written < 4 * 1024 * 1024, `${written} bytes were taken from the writer`)
  stream.close(constants.NGHTTP2_CANCEL)
})

it('a client that resets ends the request behind it at once, and only that one', async () => {
  const closed = Promise.withResolvers<string>()
  handler = (request, response) => {
    response.write('begin')
    response.once('close', () => closed.resolve(request.url ?? ''))
  }
  const staying = client.request({ ':path': '/staying' })
  await once(staying, 'data')
  const leaving = client.request({ ':path': '/leaving' })
  await once(leaving, 'data')
  leaving.close(constants.NGHTTP2_CANCEL)
  assert.equal(await closed.promise, '/leaving')
  assert.equal(staying.closed, false)
})

it('an answer that is cut off resets the stream, so that the client does not see it as complete', async () => {
  handler = (request, response) => {
    response.write('half')
    setImmediate(() => request.socket.destroy())
  }
  await assert.rejects(answerOf(client.request({})), /closed with error code|aborted/i)
  handler = (_request, response) => response.end('the connection lives on')
  assert.equal((await answerOf(client.request({}))).body, 'the connection lives on')
})

it('an early answer reaches a client that is still sending', async () => {
  handler = (_request, response) => {
    response.writeHead(413)
    response.end('too much')
  }
  const stream = client.request({ ':method': 'POST' })
  stream.write('x'.repeat(1000))
  const { status, body } = await answerOf(stream)
  assert.deepEqual([status, body], [413, 'too much'])
  stream.destroy()
})

it('contradictory request heads are rejected', async () => {
  handler = (_request, response) => response.end('reached')
  const twoNames = await answerOf(client.request({ ':authority': 'e2b.test', host: 'other.e2b.test' }))
  assert.deepEqual([twoNames.status, twoNames.body], [400, 'Invalid request'])
  const connecting = client.request({ ':method': 'CONNECT', ':authority': 'x:1' })
  assert.equal((await answerOf(connecting)).status, 400)
})

it('nothing is left of streams that a client opens only to reset them', async () => {
  let open = 0
  handler = (_request, response) => {
    open++
    response.once('close', () => open--)
  }
  const pause = () => new Promise((resolve) => setTimeout(resolve, 10))
  for (let round = 0; round < 20 && !client.destroyed; round++) {
    const streams = Array.from({ length: 100 }, () => client.request({}).on('error', () => {}))
    await pause()
    for (const stream of streams) stream.close(constants.NGHTTP2_CANCEL)
    await pause()
  }
  client.destroy()
  const next = connect(`https://api.e2b.test:${port}`, { ca, lookup: toLoopback })
  while (open > 0) await pause()
  handler = (_request, response) => response.end('still there')
  assert.equal((await answerOf(next.request({}))).body, 'still there')
  next.destroy()
})

it('closing lets open streams end, then cuts', async () => {
  const own = createListener({}, { cert: Buffer.from(leaf.certificate), key: Buffer.from(leaf.key) })
  own.server.on('request', (request, response) => {
    response.write('begin')
    if (request.url === '/soon') setTimeout(() => response.end('end'), 100)
  })
  await own.listen('127.0.0.1', 0)
  const { port: ownPort } = own.server.address() as AddressInfo
  const session = connect(`https://e2b.test:${ownPort}`, { ca, lookup: toLoopback })
  session.on('error', () => {})
  const soon = session.request({ ':path': '/soon' })
  const never = session.request({ ':path': '/never' })
  const cut = assert.rejects(answerOf(never))
  await Promise.all([once(soon, 'response'), once(never, 'response')])
  const closed = own.close({ graceMs: 500 })
  assert.equal((await soon.toArray()).join(''), 'beginend')
  await closed
  await cut
})

it('a server that asks clients to leave serves on, and ends a connection once it is quiet', async () => {
  const own = createListener({}, { cert: Buffer.from(leaf.certificate), key: Buffer.from(leaf.key) })
  own.server.on('request', (request, response) => {
    if (request.url === '/soon') setTimeout(() => response.end('late'), 600)
    else response.end('served')
  })
  await own.listen('127.0.0.1', 0)
  const { port: ownPort } = own.server.address() as AddressInfo
  const open = () => connect(`https://e2b.test:${ownPort}`, { ca, lookup: toLoopback }).on('error', () => {})
  const [quiet, busy] = [open(), open()]
  for (const session of [quiet, busy]) assert.equal((await answerOf(session.request({}))).body, 'served')
  own.askToLeave()
  const quietEnds = once(quiet, 'goaway')
  assert.equal((await answerOf(busy.request({ ':path': '/soon' }))).body, 'late')
  assert.equal((await quietEnds)[0], constants.NGHTTP2_NO_ERROR)
  const late = open()
  const ends = [busy, late].map((session) => once(session, 'close'))
  assert.equal((await answerOf(late.request({}))).body, 'served')
  await Promise.all(ends)
  await own.close({ graceMs: 100 })
})
