import assert from 'node:assert/strict'
import { once } from 'node:events'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import net from 'node:net'
import { describe, it } from 'node:test'
import { edgeFixture, fetchOnce, headOf, rawExchange, textOf, to } from './edge-fixture.ts'

const MiB = 1024 * 1024

describe('a request through the edge', () => {
  it("arrives with its method, path, headers and body, and with the client's address", async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.service(async (request, response) => {
      const { method, url, headers } = request
      response.end(JSON.stringify({ method, url, headers, body: await textOf(request) }))
    })
    sandbox.map(80, service.port)
    const headers = {
      ...to(sandbox, 80),
      'X-Custom': 'Value',
      'X-Forwarded-For': '6.6.6.6',
      'X-Forwarded-Host': 'forged.example',
      'X-Forwarded-Proto': 'gopher',
    }
    for (const path of ['/a/b?c=d', '//evil.example/x', '/..%2f..%2fetc', '/a/../b', '/%0d%0aX:%20y']) {
      const { body } = await fetchOnce(edge.port, { method: 'PUT', path, headers, body: 'content' })
      const seen = JSON.parse(body)
      assert.deepEqual([seen.method, seen.url, seen.body], ['PUT', path, 'content'])
      assert.equal(seen.headers['x-custom'], 'Value')
      assert.equal(seen.headers.host, headers.Host)
      assert.equal(seen.headers['x-forwarded-host'], headers.Host)
      assert.equal(seen.headers['x-forwarded-for'], '127.0.0.1')
      assert.equal(seen.headers['x-forwarded-proto'], 'http')
    }
  })

  it('loses the headers that belong to one connection, in both directions', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.raw((socket) => {
      socket.once('data', (data) => {
        const seen = Buffer.from(data.toString('latin1')).toString('base64')
        const head =
          'Connection: close, X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\nX-Dup: a\r\nx-dup: b\r\nKeep-Alive: timeout=99'
        socket.end(
          `HTTP/1.1 200 Fine By Me\r\n${head}\r\nProxy-Authenticate: x\r\nContent-Length: ${seen.length}\r\n\r\n${seen}`,
        )
      })
    })
    sandbox.map(80, service.port)
    const text = await rawExchange(
      edge.port,
      `GET / HTTP/1.1\r\nHost: ${to(sandbox, 80).Host}\r\nConnection: close, X-Mine, Host, Content-Length\r\nX-Mine: 1\r\n` +
        'X-End: 2\r\nTE: trailers, deflate\r\nProxy-Authorization: secret\r\nKeep-Alive: 5\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n',
    )
    const [head = '', body = ''] = text.slice(text.lastIndexOf('HTTP/1.1')).split('\r\n\r\n')
    const seen = Buffer.from(body, 'base64').toString()
    assert.match(seen, /\r\nX-End: 2\r\nTE: trailers\r\n/)
    assert.match(seen, /\r\nContent-Length: 0\r\n/)
    assert.match(seen, /\r\nHost: /)
    assert.doesNotMatch(seen, /X-Mine|secret|deflate|Keep-Alive: 5/)
    assert.match(head, /^HTTP\/1\.1 200 Fine By Me\r\n/)
    assert.match(head, /X-End: 2\r\nX-Dup: a\r\nx-dup: b/)
    assert.doesNotMatch(head, /X-Hop|timeout=99|Proxy-Authenticate/)
  })

  it('reuses the connection to the service', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const ports = new Set<number | undefined>()
    const service = await edge.service(async (request, response) => {
      ports.add(request.socket.remotePort)
      response.end(await textOf(request))
    })
    sandbox.map(80, service.port)
    for (let i = 0; i < 5; i++) {
      await fetchOnce(edge.port, { method: 'POST', headers: to(sandbox, 80), body: `${i}` })
    }
    assert.equal(ports.size, 1)
  })

  it('is sent again if the idle connection that it was given turns out to be dead', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    let connections = 0
    const service = await edge.raw((socket) => {
      connections++
      let requests = 0
      socket.on('data', () => {
        if (requests++ > 0) socket.resetAndDestroy()
        else socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n${connections}`)
      })
    })
    sandbox.map(80, service.port)
    assert.equal((await fetchOnce(edge.port, { headers: to(sandbox, 80) })).body, '1')
    assert.equal((await fetchOnce(edge.port, { headers: to(sandbox, 80) })).body, '2')
  })

  it('streams each piece of its body before the next is sent, and the answer likewise', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.service((request, response) => {
      response.flushHeaders()
      request.on('data', (piece) => response.write(`got ${piece};`))
      request.on('end', () => response.end('end'))
    })
    sandbox.map(80, service.port)
    const request = http.request({ port: edge.port, method: 'POST', headers: to(sandbox, 80), agent: false })
    request.flushHeaders()
    // The head of the answer comes before any body in either direction.
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    for (const piece of ['one', 'two', 'three']) {
      request.write(piece)
      const [echo] = await once(response, 'data')
      assert.equal(`${echo}`, `got ${piece};`)
    }
    request.end()
    assert.equal(await textOf(response), 'end')
  })

  it('gets an answer that comes before the body has ended, and the connection stays usable', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.service((request, response) => {
      if (request.method === 'GET') return response.end('next')
      request.once('data', () => response.writeHead(200, { 'Content-Length': 5 }).end('early'))
      request.resume()
    })
    sandbox.map(80, service.port)
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
    const request = http.request({ port: edge.port, method: 'POST', headers: to(sandbox, 80), agent })
    request.write('first')
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    assert.equal(await textOf(response), 'early')
    request.end('last')
    assert.equal((await fetchOnce(edge.port, { headers: to(sandbox, 80), agent })).body, 'next')
    agent.destroy()
  })

  it('gets an early answer to a large body, and the same connection serves the next request', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.service((request, response) => {
      request.once('data', () => response.writeHead(507, { 'Content-Length': 4 }).end('full'))
      request.resume()
    })
    sandbox.map(80, service.port)
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
    for (let round = 0; round < 3; round++) {
      const body = 'x'.repeat(8 * MiB)
      const answer = await fetchOnce(edge.port, { method: 'POST', headers: to(sandbox, 80), agent, body })
      assert.deepEqual([answer.status, answer.body], [507, 'full'])
    }
    agent.destroy()
  })

  it('gets an early answer of a service that then closes, while the client keeps sending', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.raw((socket) => {
      socket.once('data', () =>
        socket.end('HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno'),
      )
      socket.on('data', () => {})
    })
    sandbox.map(80, service.port)
    const agent = new http.Agent({ keepAlive: true })
    const request = http.request({ port: edge.port, method: 'POST', headers: to(sandbox, 80), agent })
    request.write('first')
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    request.write(Buffer.alloc(2 * MiB))
    assert.deepEqual([response.statusCode, await textOf(response)], [413, 'no'])
    request.end()
    await once(request, 'close')
    agent.destroy()
  })

  it('has a 64 MiB answer that waits for a slow reader instead of piling up', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const total = 64 * MiB
    let sent = 0
    const service = await edge.service(async (_, response) => {
      const piece = Buffer.alloc(64 * 1024, 'x')
      for (; sent < total; sent += piece.length) if (!response.write(piece)) await once(response, 'drain')
      response.end()
    })
    sandbox.map(80, service.port)
    const request = http.get({ port: edge.port, headers: to(sandbox, 80), agent: false })
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    let received = 0
    let maxAhead = 0
    for await (const chunk of response) {
      received += chunk.length
      // One turn of the event loop per piece, so that the sender could run ahead without backpressure.
      await new Promise((resolve) => setImmediate(resolve))
      maxAhead = Math.max(maxAhead, sent - received)
    }
    assert.equal(received, total)
    assert.ok(maxAhead < 24 * MiB, `${maxAhead} bytes were under way at once`)
  })

  it('has a 64 MiB body that waits for a slow service', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const total = 64 * MiB
    let received = 0
    const service = await edge.service(async (request, response) => {
      for await (const chunk of request) {
        received += chunk.length
        await new Promise((resolve) => setImmediate(resolve))
      }
      response.end(`${received}`)
    })
    sandbox.map(80, service.port)
    const request = http.request({ port: edge.port, method: 'POST', headers: to(sandbox, 80), agent: false })
    const piece = Buffer.alloc(64 * 1024, 'x')
    let maxAhead = 0
    for (let sent = 0; sent < total; sent += piece.length) {
      if (!request.write(piece)) await once(request, 'drain')
      maxAhead = Math.max(maxAhead, sent - received)
    }
    request.end()
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    assert.equal(await textOf(response), `${total}`)
    assert.ok(maxAhead < 24 * MiB, `${maxAhead} bytes were under way at once`)
  })
})

describe('an answer through the edge', () => {
  async function answerOf(text: string, options: http.RequestOptions = {}) {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    sandbox.map(80, (await edge.raw((socket) => socket.once('data', () => socket.end(text)))).port)
    const request = http.request({ port: edge.port, headers: to(sandbox, 80), agent: false, ...options })
    const interim: unknown[][] = []
    request.on('information', ({ statusCode, headers }) => void interim.push([statusCode, headers.link]))
    request.end()
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    return { ...headOf(response), body: await textOf(response), trailers: response.trailers, interim }
  }

  it('ends where the service closes if it has no length', async () => {
    assert.equal((await answerOf('HTTP/1.1 200 OK\r\n\r\nuntil the end')).body, 'until the end')
    assert.equal((await answerOf('HTTP/1.0 200 OK\r\n\r\nold')).body, 'old')
  })

  it('keeps its length and has no body if it answers HEAD', async () => {
    const { headers, body } = await answerOf('HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n', {
      method: 'HEAD',
    })
    assert.deepEqual([headers['content-length'], body], ['7', ''])
    const chunked = 'HTTP/1.1 200 OK\r\nTrailer: X\r\nTransfer-Encoding: chunked\r\n\r\n'
    assert.equal((await answerOf(chunked, { method: 'HEAD' })).status, 200)
  })

  it('has no body if its status allows none', async () => {
    const { status, headers, body } = await answerOf('HTTP/1.1 204 No Content\r\n\r\n')
    assert.deepEqual([status, headers['transfer-encoding'], body], [204, undefined, ''])
    assert.equal((await answerOf('HTTP/1.1 304 Not Modified\r\nETag: "a"\r\n\r\n')).headers.etag, '"a"')
  })

  it('keeps its trailers, but none that would change its framing', async () => {
    const body = '3\r\nabc\r\n0\r\nX-Sum: 9\r\nConnection: close\r\nHost: x\r\n\r\n'
    const answer = await answerOf(
      `HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n${body}`,
    )
    assert.equal(answer.body, 'abc')
    assert.deepEqual({ ...answer.trailers }, { 'x-sum': '9' })
  })

  it('comes after its interim answers', async () => {
    const early = 'HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n'
    const { interim, body } = await answerOf(
      `HTTP/1.1 100 Continue\r\n\r\n${early}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`,
    )
    assert.deepEqual(interim, [[103, '</a>; rel=preload']])
    assert.equal(body, 'ok')
  })

  it('is a 502 if it is not HTTP, or frames itself twice', async () => {
    for (const text of [
      'SSH-2.0-x\r\n',
      'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd',
      `HTTP/1.1 200 OK\r\nX-Large: ${'x'.repeat(100_000)}\r\n\r\n`,
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: surprise\r\n\r\n',
    ]) {
      assert.equal((await answerOf(text)).status, 502, text.slice(0, 60))
    }
  })

  it('reaches the client as a broken connection if it is cut short, never as a whole answer', async () => {
    for (const head of ['Content-Length: 100', 'Transfer-Encoding: chunked']) {
      for (const version of ['1.1', '1.0']) {
        await using edge = await edgeFixture()
        const sandbox = edge.sandbox()
        const service = await edge.raw((socket) =>
          socket.once('data', () => {
            socket.write(`HTTP/1.1 200 OK\r\n${head}\r\n\r\n4\r\nabcd\r\n`)
            setImmediate(() => socket.destroy())
          }),
        )
        sandbox.map(80, service.port)
        const request = `GET / HTTP/${version}\r\nHost: ${to(sandbox, 80).Host}\r\n\r\n`
        await assert.rejects(rawExchange(edge.port, request), { code: 'ECONNRESET' })
      }
    }
  })
})

describe('a request whose client or service leaves', () => {
  it('the service notices that the client is gone, before and during the answer', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    for (const answering of [false, true]) {
      const gone = Promise.withResolvers<void>()
      const reached = Promise.withResolvers<ServerResponse>()
      const service = await edge.service((_, response) => {
        if (answering) response.flushHeaders()
        response.once('close', gone.resolve)
        reached.resolve(response)
      })
      sandbox.map(answering ? 81 : 80, service.port)
      const request = http.get({ port: edge.port, headers: to(sandbox, answering ? 81 : 80), agent: false })
      request.on('error', () => {})
      if (answering) {
        const [response] = (await once(request, 'response')) as [IncomingMessage]
        response.on('error', () => {})
      }
      await reached.promise
      request.destroy()
      await gone.promise
    }
  })

  it('the service notices that a client broke off in the middle of its body', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const broken = Promise.withResolvers<Error>()
    const first = Promise.withResolvers<void>()
    const service = await edge.service((request) => {
      request.once('data', () => first.resolve())
      request.on('error', broken.resolve)
    })
    sandbox.map(80, service.port)
    const socket = net.connect(edge.port, '127.0.0.1')
    socket.write(`POST / HTTP/1.1\r\nHost: ${to(sandbox, 80).Host}\r\nContent-Length: 100\r\n\r\nhalf`)
    await first.promise
    socket.destroy()
    await broken.promise
  })
})

describe('a client that waits for 100', () => {
  it('gets the 100 of the service, and then sends its body', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.service(() => {})
    service.on('checkContinue', async (request: IncomingMessage, response: ServerResponse) => {
      response.writeContinue()
      response.end(await textOf(request))
    })
    sandbox.map(80, service.port)
    const headers = { ...to(sandbox, 80), Expect: '100-continue', 'Content-Length': '4' }
    const request = http.request({ port: edge.port, method: 'POST', headers, agent: false })
    await once(request, 'continue')
    request.end('body')
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    assert.equal(await textOf(response), 'body')
  })

  it('gets a rejection instead, on a connection that then closes', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.service(() => {})
    service.on('checkContinue', (_, response: ServerResponse) => response.writeHead(417).end())
    sandbox.map(80, service.port)
    const text = await rawExchange(
      edge.port,
      `POST / HTTP/1.1\r\nHost: ${to(sandbox, 80).Host}\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n`,
    )
    assert.match(text, /^HTTP\/1\.1 417 /)
    assert.match(text, /\r\nConnection: close\r\n/)
  })
})
