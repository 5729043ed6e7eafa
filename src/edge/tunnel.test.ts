import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import http, { type IncomingMessage } from 'node:http'
import net, { type Socket } from 'node:net'
import { describe, it } from 'node:test'
import { type EdgeFixture, edgeFixture, fetchOnce, textOf, to } from './edge-fixture.ts'
import { until } from './sleepy-edge-fixture.ts'

const MiB = 1024 * 1024

/** A service that agrees to leave HTTP and hands its side to the test. */
async function upgrading(edge: EdgeFixture, use: (socket: Socket) => void) {
  const service = await edge.service((_, response) => response.writeHead(426).end('upgrade, please'))
  service.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    assert.equal(request.headers.upgrade, 'bytes')
    socket.write('HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: bytes\r\nX-Mine: yes\r\n\r\n')
    socket.on('error', () => {})
    if (head.length > 0) socket.unshift(head)
    use(socket)
  })
  return service
}

async function openTunnel(edge: EdgeFixture, sandbox: { sandboxID: string }) {
  const headers = { ...to(sandbox, 80), Connection: 'Upgrade', Upgrade: 'bytes' }
  const request = http.get({ port: edge.port, headers, agent: false })
  const [response, socket, head] = (await once(request, 'upgrade')) as [IncomingMessage, Socket, Buffer]
  socket.unshift(head)
  return { response, socket }
}

describe('an upgraded connection', () => {
  it('carries a WebSocket', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.service(() => {})
    service.on('upgrade', (request: IncomingMessage, socket: Socket) => {
      const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`
      const accept = createHash('sha1').update(key).digest('base64')
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
      )
      // One masked frame shorter than 126 bytes in, the same text unmasked out.
      socket.on('data', (frame: Buffer) => {
        if ((frame[0]! & 0x0f) === 8) return socket.end(Buffer.from([0x88, 0]))
        const [length, mask] = [frame[1]! & 0x7f, frame.subarray(2, 6)]
        const text = frame.subarray(6, 6 + length).map((byte, i) => byte ^ mask[i % 4]!)
        socket.write(Buffer.concat([Buffer.from([0x81, length]), text]))
      })
    })
    sandbox.map(80, service.port)
    // Node's WebSocket cannot set Host: a server in front does it.
    const front = await edge.service(() => {})
    front.on('upgrade', (request: IncomingMessage, socket: Socket) => {
      const inner = http.get({
        port: edge.port,
        headers: { ...request.headers, ...hostOf(sandbox) },
        agent: false,
      })
      inner.on('upgrade', (answer, far) => {
        const lines = Object.entries(answer.headers).map(([name, value]) => `${name}: ${value}\r\n`)
        socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join('')}\r\n`)
        far.pipe(socket).pipe(far)
      })
    })
    const webSocket = new WebSocket(`ws://127.0.0.1:${front.port}/`)
    await once(webSocket, 'open')
    for (const text of ['one', 'two']) {
      webSocket.send(text)
      const [message] = (await once(webSocket, 'message')) as [MessageEvent]
      assert.equal(message.data, text)
    }
    webSocket.close()
    await once(webSocket, 'close')
  })

  it('passes on the head of the upgrade and bytes that come with it', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    sandbox.map(80, (await upgrading(edge, (socket) => socket.pipe(socket))).port)
    const head = `GET / HTTP/1.1\r\nHost: ${to(sandbox, 80).Host}\r\nConnection: Upgrade\r\nUpgrade: bytes\r\n\r\n`
    const { response, socket } = await openTunnel(edge, sandbox)
    assert.deepEqual([response.statusMessage, response.headers['x-mine']], ['Go', 'yes'])
    socket.destroy()
    // Sent without waiting for the 101.
    const hasty = net.connect(edge.port, '127.0.0.1')
    hasty.write(`${head}early bytes`)
    let seen = ''
    for await (const chunk of hasty) {
      seen += chunk
      if (seen.endsWith('early bytes')) break
    }
    assert.match(seen, /^HTTP\/1\.1 101 Go\r\n[\s\S]*\r\n\r\nearly bytes$/)
  })

  it('can be closed in one direction while the other stays open', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await upgrading(edge, async (socket) => {
      const received = await textOf(socket.iterator({ destroyOnReturn: false }))
      socket.write(`after your end: ${received}`)
      socket.end()
    })
    sandbox.map(80, service.port)
    const { socket } = await openTunnel(edge, sandbox)
    socket.allowHalfOpen = true
    socket.end('everything')
    assert.equal(await textOf(socket), 'after your end: everything')
  })

  it('waits for a slow reader in either direction', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const total = 32 * MiB
    let sent = 0
    const service = await upgrading(edge, async (socket) => {
      const piece = Buffer.alloc(64 * 1024)
      for (; sent < total; sent += piece.length) if (!socket.write(piece)) await once(socket, 'drain')
      socket.end()
    })
    sandbox.map(80, service.port)
    const { socket } = await openTunnel(edge, sandbox)
    let received = 0
    let maxAhead = 0
    for await (const chunk of socket) {
      received += chunk.length
      await new Promise((resolve) => setImmediate(resolve))
      maxAhead = Math.max(maxAhead, sent - received)
    }
    assert.equal(received, total)
    assert.ok(maxAhead < 24 * MiB, `${maxAhead} bytes were under way at once`)
  })

  it('breaks on both sides when it breaks on one', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const inside = Promise.withResolvers<Socket>()
    sandbox.map(80, (await upgrading(edge, inside.resolve)).port)
    const first = await openTunnel(edge, sandbox)
    const service = await inside.promise
    service.resume()
    first.socket.resetAndDestroy()
    await new Promise((resolve) => service.once('close', resolve))

    const second = Promise.withResolvers<Socket>()
    sandbox.map(80, (await upgrading(edge, second.resolve)).port)
    const { socket } = await openTunnel(edge, sandbox)
    const broken = once(socket.resume(), 'error')
    ;(await second.promise).resetAndDestroy()
    await assert.rejects(
      broken.then(([error]) => Promise.reject(error)),
      { code: 'ECONNRESET' },
    )
  })

  it('is an ordinary answer of any length if the service declines the upgrade', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const large = 'x'.repeat(4 * MiB)
    const service = await edge.service((_, response) => response.writeHead(403, { 'X-Why': 'no' }).end(large))
    sandbox.map(80, service.port)
    const headers = { ...to(sandbox, 80), Connection: 'Upgrade', Upgrade: 'websocket' }
    const answer = await fetchOnce(edge.port, { headers })
    assert.deepEqual([answer.status, answer.headers['x-why'], answer.body.length], [403, 'no', large.length])
  })

  it('gets the same answers as a request if the sandbox or port does not exist', async () => {
    await using edge = await edgeFixture()
    const upgrade = { Connection: 'Upgrade', Upgrade: 'websocket' }
    const unknown = await fetchOnce(edge.port, { headers: { ...to({ sandboxID: 'inone' }, 80), ...upgrade } })
    assert.deepEqual([unknown.status, JSON.parse(unknown.body).message], [502, 'The sandbox was not found'])
    const closed = await fetchOnce(edge.port, { headers: { ...to(edge.sandbox(), 80), ...upgrade } })
    assert.deepEqual([closed.status, JSON.parse(closed.body).port], [502, 80])
    const hidden = await fetchOnce(edge.port, {
      path: '/relay?port=22',
      headers: { ...to(edge.sandbox(), 49983), Connection: 'Upgrade', Upgrade: 'warren-relay' },
    })
    assert.equal(hidden.status, 404)
  })

  it('is not made for an offer of HTTP/2, which is ignored', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.service((request, response) => response.end(`${request.headers.upgrade}`))
    sandbox.map(80, service.port)
    const offer = { Connection: 'Upgrade, HTTP2-Settings', Upgrade: 'h2c', 'HTTP2-Settings': 'AAMAAABk' }
    assert.equal(
      (await fetchOnce(edge.port, { headers: { ...to(sandbox, 80), ...offer } })).body,
      'undefined',
    )
  })
})

const hostOf = (sandbox: { sandboxID: string }) => ({ host: to(sandbox, 80).Host })

describe('a tunnel to a sandbox that ends', () => {
  it('its open answers and tunnels are reset, and those of others continue', async () => {
    await using edge = await edgeFixture()
    const [dying, living] = [edge.sandbox(), edge.sandbox()]
    const streaming = await upgrading(edge, () => {})
    streaming.removeAllListeners('request').on('request', (_, response) => response.write('begun'))
    for (const sandbox of [dying, living]) sandbox.map(80, streaming.port)
    const stream = async (sandbox: { sandboxID: string }) => {
      const request = http.get({ port: edge.port, headers: to(sandbox, 80), agent: false })
      const [response] = (await once(request, 'response')) as [IncomingMessage]
      request.on('error', () => {})
      await once(response, 'data')
      return response
    }
    const [lost, unaffected] = [await stream(dying), await stream(living)]
    const [cut, open] = [await openTunnel(edge, dying), await openTunnel(edge, living)]
    const outcomes = Promise.all([once(lost, 'error'), once(cut.socket.resume(), 'error')])
    dying.remove()
    const codes = (await outcomes).map(([error]) => (error as NodeJS.ErrnoException).code)
    assert.deepEqual(codes, ['ECONNRESET', 'ECONNRESET'])
    assert.equal((await fetchOnce(edge.port, { headers: to(dying, 80) })).status, 502)
    assert.deepEqual([unaffected.destroyed, open.socket.destroyed], [false, false])
    open.socket.on('error', () => {})
    unaffected.on('error', () => {})
  })

  it('requests without an answer are told that the sandbox is gone, whatever has reached the service', async () => {
    await using edge = await edgeFixture()
    const dying = edge.sandbox()
    const heard: string[] = []
    const silent = await edge.service((request) => heard.push(`${request.method}`))
    silent.on('upgrade', () => heard.push('upgrade'))
    dying.map(80, silent.port)
    const headers = to(dying, 80)
    const upload = http.request({ port: edge.port, method: 'POST', headers, agent: false })
    upload.write('half of it')
    const uploadAnswer = once(upload, 'response') as Promise<[IncomingMessage]>
    const offer = { Connection: 'Upgrade', Upgrade: 'websocket' }
    const replies = [
      fetchOnce(edge.port, { headers }),
      fetchOnce(edge.port, { headers: { ...headers, ...offer } }),
    ]
    await until(() => heard.length === 3)
    dying.remove()
    const gone = { sandboxId: dying.sandboxID, message: 'The sandbox was not found', code: 502 }
    for (const { status, body } of await Promise.all(replies)) {
      assert.deepEqual([status, JSON.parse(body)], [502, gone])
    }
    const [answer] = await uploadAnswer
    assert.deepEqual([answer.statusCode, JSON.parse(await textOf(answer))], [502, gone])
    upload.destroy()
  })

  it('requests without an answer are reset when the edge closes, because the sandbox keeps running', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const silent = await edge.service(() => {})
    sandbox.map(80, silent.port)
    const heard = once(silent, 'request')
    const broken = assert.rejects(fetchOnce(edge.port, { headers: to(sandbox, 80) }), { code: 'ECONNRESET' })
    await heard
    edge.close()
    await broken
  })

  it("a client's connection that is finished with the sandbox stays usable for others", async () => {
    await using edge = await edgeFixture()
    const [dying, living] = [edge.sandbox(), edge.sandbox()]
    const service = await edge.service((_, response) => response.end('fine'))
    for (const sandbox of [dying, living]) sandbox.map(80, service.port)
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
    const ports: unknown[] = []
    agent.on('free', (socket: Socket) => ports.push(socket.localPort))
    assert.equal((await fetchOnce(edge.port, { headers: to(dying, 80), agent })).body, 'fine')
    dying.remove()
    assert.equal((await fetchOnce(edge.port, { headers: to(living, 80), agent })).body, 'fine')
    assert.equal((await fetchOnce(edge.port, { headers: to(dying, 80), agent })).status, 502)
    assert.equal(new Set(ports).size, 1)
    agent.destroy()
  })

  it('its connections to the service are closed, and the next run starts with none', async () => {
    await using edge = await edgeFixture()
    const first = edge.sandbox({ sandboxID: 'isame' })
    const old = await edge.service((_, response) => response.end('old'))
    first.map(80, old.port)
    const connected = once(old, 'connection') as Promise<[Socket]>
    assert.equal((await fetchOnce(edge.port, { headers: to(first, 80) })).body, 'old')
    const [connection] = await connected
    const closed = once(connection, 'close')
    first.remove()
    await closed
    const second = edge.sandbox({ sandboxID: 'isame' })
    second.map(80, (await edge.service((_, response) => response.end('new'))).port)
    first.remove()
    assert.equal((await fetchOnce(edge.port, { headers: to(second, 80) })).body, 'new')
  })
})
