import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import http, { type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { edgeFixture, fetchOnce, rawExchange, to } from './edge-fixture.ts'

const MiB = 1024 * 1024

/** An edge, a sandbox behind it and a connection to it. */
async function setUp(serve: { http: http.RequestListener } | { tcp: (socket: Socket) => void }) {
  const edge = await edgeFixture()
  const sandbox = edge.sandbox()
  const service = 'http' in serve ? await edge.service(serve.http) : await edge.raw(serve.tcp)
  sandbox.map(80, service.port)
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  const headers = to(sandbox, 80)
  const send = async (options: http.RequestOptions = {}, body?: string) => {
    const request = http.request({ port: edge.port, headers, agent, ...options }).end(body)
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    // The response reports such an error too.
    request.on('error', () => {})
    return response
  }
  const close = async () => {
    agent.destroy()
    await edge[Symbol.asyncDispose]()
  }
  return { edge, sandbox, agent, headers, send, [Symbol.asyncDispose]: close }
}

async function slowly(response: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of response) {
    chunks.push(chunk)
    await turn()
  }
  return Buffer.concat(chunks)
}

describe('a large answer of known length', () => {
  it('arrives unchanged, however slowly it is read, and the connection serves the next request', async () => {
    const bytes = randomBytes(24 * MiB + 13)
    await using through = await setUp({ http: (_, response) => response.end(bytes) })
    const local = new Set<number | undefined>()
    for (let round = 0; round < 3; round++) {
      const response = await through.send()
      local.add(response.socket.localPort)
      assert.ok((await slowly(response)).equals(bytes))
    }
    assert.equal(local.size, 1)
  })

  it('waits for a slow reader instead of piling up', async () => {
    const total = 64 * MiB
    let sent = 0
    await using through = await setUp({
      http: async (_, response) => {
        const piece = Buffer.alloc(64 * 1024, 'x')
        response.setHeader('Content-Length', total)
        for (; sent < total; sent += piece.length) if (!response.write(piece)) await once(response, 'drain')
        response.end()
      },
    })
    let received = 0
    let maxAhead = 0
    for await (const chunk of await through.send()) {
      received += chunk.length
      await turn()
      maxAhead = Math.max(maxAhead, sent - received)
    }
    assert.equal(received, total)
    assert.ok(maxAhead < 24 * MiB, `${maxAhead} bytes were under way at once`)
  })

  it('comes in pieces as the service sends them', async () => {
    let more = () => {}
    await using through = await setUp({
      http: (_, response) => {
        response.writeHead(200, { 'Content-Length': 2 * MiB })
        more = () => void response.write('piece')
        more()
      },
    })
    const response = await through.send()
    for (let piece = 0; piece < 5; piece++) {
      const [text] = await once(response, 'data')
      assert.equal(`${text}`, 'piece')
      more()
    }
    response.destroy()
  })

  it('reaches the client as a broken connection if it is cut short', async () => {
    for (const end of ['destroy', 'end', 'resetAndDestroy'] as const) {
      await using through = await setUp({
        tcp: (socket) =>
          socket.once('data', () => {
            socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${8 * MiB}\r\n\r\n`)
            socket.write(Buffer.alloc(4 * MiB), () => socket[end]())
          }),
      })
      const request = `GET / HTTP/1.1\r\nHost: ${through.headers.Host}\r\n\r\n`
      await assert.rejects(rawExchange(through.edge.port, request), { code: 'ECONNRESET' })
    }
  })

  it('ends at its length, whatever the service sends after it', async () => {
    let open = 0
    await using through = await setUp({
      tcp: (socket) => {
        open++
        socket.once('end', () => socket.end()).once('close', () => open--)
        socket.on('data', () => {
          socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${2 * MiB}\r\n\r\n`)
          socket.write(
            Buffer.concat([Buffer.alloc(2 * MiB, 'a'), Buffer.from('HTTP/1.1 200 OK\r\n\r\nmore')]),
          )
        })
      },
    })
    const request = `GET / HTTP/1.1\r\nHost: ${through.headers.Host}\r\nConnection: close\r\n\r\n`
    const text = await rawExchange(through.edge.port, request)
    assert.equal(text.length - text.indexOf('\r\n\r\n') - 4, 2 * MiB)
    while (open > 0) await turn()
  })

  it('may come while the client still sends, and the connection stays usable', async () => {
    const bytes = randomBytes(4 * MiB)
    await using through = await setUp({
      http: (request, response) => {
        if (request.method === 'GET') response.end('next')
        else response.writeHead(200, { 'Content-Length': bytes.length }).end(bytes)
      },
    })
    const { agent, headers, edge } = through
    const request = http.request({ port: edge.port, method: 'POST', headers, agent })
    request.write('first')
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    assert.ok((await slowly(response)).equals(bytes))
    request.end('last')
    assert.equal((await fetchOnce(edge.port, { headers, agent })).body, 'next')
  })

  it('stops when its client leaves, and breaks when the sandbox ends', async () => {
    for (const leave of ['client', 'sandbox']) {
      const closed = Promise.withResolvers<void>()
      await using through = await setUp({
        http: (_, response) => {
          response.on('error', () => {}).once('close', closed.resolve)
          response.writeHead(200, { 'Content-Length': 64 * MiB }).write(Buffer.alloc(32 * MiB))
        },
      })
      const response = await through.send()
      await once(response, 'data')
      if (leave === 'client') response.destroy()
      else {
        through.sandbox.remove()
        await assert.rejects(response.toArray(), { code: 'ECONNRESET' })
      }
      await closed.promise
    }
  })
})
