/** Tests of hostile answers of a service in a sandbox: each harms only its own request. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import http, { type IncomingMessage } from 'node:http'
import net, { type Socket } from 'node:net'
import { describe, it } from 'node:test'
import { silentLog } from '../lib/log.ts'
import { agentToken, edgeFixture, fetchOnce, rawExchange, textOf, to } from './edge-fixture.ts'

const within = { timeout: 300_000 }

/** Writes the same bytes for as long as the reader takes them. */
function writeForever(socket: Socket, text: string): void {
  const piece = Buffer.from(text)
  const more = () => {
    while (!socket.destroyed && socket.write(piece));
    if (!socket.destroyed) socket.once('drain', more)
  }
  more()
}

/** An edge with a service that begins with one text and repeats another. */
async function endless(first: string, repeated: string) {
  const warnings: string[] = []
  const log = { ...silentLog, warn: (_: object, message: string) => void warnings.push(message) }
  const edge = await edgeFixture({ log })
  const sandbox = edge.sandbox()
  const closed = Promise.withResolvers<number>()
  const service = await edge.raw((socket) => {
    socket.once('close', () => closed.resolve(socket.bytesWritten))
    socket.once('data', () => {
      socket.write(first)
      writeForever(socket, repeated)
    })
  })
  sandbox.map(80, service.port)
  return {
    edge,
    sandbox,
    warnings,
    closed: closed.promise,
    [Symbol.asyncDispose]: () => edge[Symbol.asyncDispose](),
  }
}

const hints = 'HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n'.repeat(500)
const header = `X-More: ${'x'.repeat(100)}\r\n`.repeat(500)

describe('a service that never finishes its answer', within, () => {
  it('is cut off if it leaves HTTP without naming another protocol', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.raw((socket) => {
      socket.on('data', () => socket.write('HTTP/1.1 101 Switching Protocols\r\n\r\n'))
    })
    sandbox.map(80, service.port)
    const { status } = await fetchOnce(edge.port, { headers: to(sandbox, 80) })
    assert.equal(status, 502)
  })

  it('is cut off after a number of interim answers, with a 502 and one line in the log', async () => {
    await using through = await endless('', hints)
    for (let round = 0; round < 2; round++) {
      const { status, body } = await fetchOnce(through.edge.port, { headers: to(through.sandbox, 80) })
      assert.equal(status, 502)
      assert.match(body, /more than 100 interim answers/)
    }
    await through.closed
    assert.equal(through.warnings.length, 1)
    assert.match(through.warnings[0]!, /more than 100 interim answers/)
  })

  it('is cut off if its interim answers are few and large', async () => {
    const large = `HTTP/1.1 103 Early Hints\r\nX-Large: ${'x'.repeat(30_000)}\r\n\r\n`
    await using through = await endless('', large)
    const options = { headers: to(through.sandbox, 80), maxHeaderSize: 100_000 }
    assert.equal((await fetchOnce(through.edge.port, options)).status, 502)
    await through.closed
  })

  it('is cut off even if the client asked for an upgrade', async () => {
    await using through = await endless('', hints)
    const answer = await rawExchange(
      through.edge.port,
      `GET / HTTP/1.1\r\nHost: ${to(through.sandbox, 80).Host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
    )
    assert.match(answer, /HTTP\/1\.1 502 /)
    await through.closed
  })

  it('has one 100 passed on, however many it sends', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.raw((socket) =>
      socket.once('data', () => {
        socket.write('HTTP/1.1 100 Continue\r\n\r\n'.repeat(50))
        socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
      }),
    )
    sandbox.map(80, service.port)
    const answer = await rawExchange(
      edge.port,
      `POST / HTTP/1.1\r\nHost: ${to(sandbox, 80).Host}\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi`,
    )
    assert.equal(answer.split('100 Continue').length - 1, 1)
    assert.match(answer, /\r\n\r\nok$/)
  })

  it('is cut off if its headers, its trailers or a chunk are endless', async () => {
    const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-More\r\n\r\n'
    {
      await using through = await endless('HTTP/1.1 200 OK\r\n', header)
      const { status, body } = await fetchOnce(through.edge.port, { headers: to(through.sandbox, 80) })
      assert.equal(status, 502)
      assert.match(body, /the head of its answer is larger than 65536 bytes/)
      await through.closed
    }
    for (const first of [`${chunked}1\r\nx\r\n0\r\n`, `${chunked}1;`]) {
      await using through = await endless(first, first.endsWith(';') ? 'a=b;'.repeat(5000) : header)
      const request = `GET / HTTP/1.1\r\nHost: ${to(through.sandbox, 80).Host}\r\n\r\n`
      await assert.rejects(rawExchange(through.edge.port, request), { code: 'ECONNRESET' })
      await through.closed
    }
  })

  it('has all of its headers passed on, or gets a 502 with the maximum number', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const lines = (count: number) => Array.from({ length: count }, (_, at) => `X-${at}: ${at}\r\n`).join('')
    const service = await edge.raw((socket) =>
      socket.once('data', (head) => {
        const count = Number(/^GET \/(\d+)/.exec(`${head}`)?.[1])
        socket.end(`HTTP/1.1 200 OK\r\n${lines(count)}Content-Length: 2\r\n\r\nok`)
      }),
    )
    sandbox.map(80, service.port)
    const ask = (path: string) =>
      rawExchange(
        edge.port,
        `GET ${path} HTTP/1.1\r\nHost: ${to(sandbox, 80).Host}\r\nConnection: close\r\n\r\n`,
      )
    const many = await ask('/1500')
    assert.ok(many.includes(lines(1500)))
    assert.match(many, /\r\nContent-Length: 2\r\n.*\r\n\r\nok$/s)
    const tooMany = await ask('/2000')
    assert.match(tooMany, /^HTTP\/1\.1 502 .*its answer has more than 2000 headers/s)
  })

  it("cannot make a connection wait by its answers on the agent's port", async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const closed = Promise.withResolvers<void>()
    const agent = await edge.raw((socket) => {
      socket.once('close', () => closed.resolve())
      socket.once('data', (head) => {
        assert.match(`${head}`, new RegExp(`/relay\\?port=81[^]*${agentToken}`))
        writeForever(socket, hints)
      })
    })
    sandbox.map(49983, agent.port)
    const { status, body } = await fetchOnce(edge.port, { headers: to(sandbox, 81) })
    assert.deepEqual([status, JSON.parse(body).message], [502, 'The sandbox is running but port is not open'])
    await closed.promise
  })
})

describe('a service that sends each byte as its own chunk', within, () => {
  const pieces = 3000

  it('has its bytes joined on the way, and all of them arrive', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.raw((socket) =>
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
        socket.end(`${'1\r\nx\r\n'.repeat(pieces)}0\r\n\r\n`)
      }),
    )
    sandbox.map(80, service.port)
    const request = `GET / HTTP/1.1\r\nHost: ${to(sandbox, 80).Host}\r\nConnection: close\r\n\r\n`
    const body = (await rawExchange(edge.port, request)).split('\r\n\r\n').slice(1).join('\r\n\r\n')
    const chunks = body.split('\r\n').filter((line) => /^x+$/.test(line))
    assert.equal(chunks.join('').length, pieces)
    assert.ok(chunks.length < pieces / 10, `${chunks.length} chunks left the edge`)
  })

  it('gets the bytes of a client joined in the same way', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.service(async (request, response) => response.end(await textOf(request)))
    sandbox.map(80, service.port)
    const socket = net.connect(edge.port, '127.0.0.1')
    socket.write(
      `POST / HTTP/1.1\r\nHost: ${to(sandbox, 80).Host}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n`,
    )
    socket.write(`${'1\r\nx\r\n'.repeat(pieces)}0\r\n\r\n`)
    assert.ok((await textOf(socket)).includes('x'.repeat(100)))
  })

  it('is read no faster than the client reads', async () => {
    await using through = await endless(
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n',
      '1\r\nx\r\n'.repeat(5000),
    )
    const request = http.get({ port: through.edge.port, headers: to(through.sandbox, 80), agent: false })
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    response.on('error', () => {})
    await once(response, 'readable')
    // Another sandbox is served meanwhile.
    const other = through.edge.sandbox()
    const service = await through.edge.service((_, answer) => answer.end('unhurt'))
    other.map(80, service.port)
    for (let round = 0; round < 20; round++) {
      assert.equal((await fetchOnce(through.edge.port, { headers: to(other, 80) })).body, 'unhurt')
    }
    request.destroy()
    await through.closed
  })
})
