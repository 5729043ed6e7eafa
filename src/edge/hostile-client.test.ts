import assert from 'node:assert/strict'
import { once } from 'node:events'
import net from 'node:net'
import { describe, it } from 'node:test'
import { ManualClock } from '../lib/clock.ts'
import { discardBody } from '../lib/http-relay/discard-body.ts'
import { type EdgeFixture, edgeFixture, fetchOnce, rawExchange, textOf, to } from './edge-fixture.ts'

/** A sandbox whose service notes every request it sees, as it sees it. */
async function noting(edge: EdgeFixture) {
  const sandbox = edge.sandbox()
  const seen: string[] = []
  const service = await edge.service(async (request, response) => {
    const body = await textOf(request).catch(() => 'broken')
    seen.push(`${request.method} ${request.url} ${body}`)
    response.end('answered')
  })
  sandbox.map(80, service.port)
  return { sandbox, seen, Host: to(sandbox, 80).Host }
}

const statusOf = (text: string) => Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1])

describe('a request that could be read in two ways', () => {
  const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n'
  const heads: [what: string, head: string][] = [
    ['length and chunks', `Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`],
    ['chunks and length', `Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n${smuggled}`],
    ['two lengths', `Content-Length: 4\r\nContent-Length: 40\r\n\r\nabcd${smuggled}`],
    ['a list of lengths', `Content-Length: 4, 4\r\n\r\nabcd${smuggled}`],
    ['a signed length', `Content-Length: +4\r\n\r\nabcd${smuggled}`],
    ['a coding that is not chunked', `Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n${smuggled}`],
    ['a coding before chunked', `Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n${smuggled}`],
    ['chunked twice', `Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`],
    ['a disguised coding', `Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${smuggled}`],
    ['a space before the colon', `Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n${smuggled}`],
    ['a folded header', `X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`],
    ['a bare newline', `X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`],
    ['a bad chunk length', `Transfer-Encoding: chunked\r\n\r\n0x4\r\nabcd\r\n0\r\n\r\n${smuggled}`],
    ['an upgrade with a body', `Connection: Upgrade\r\nUpgrade: x\r\nContent-Length: 40\r\n\r\n${smuggled}`],
    ['two hosts', `Host: 80-iother.sandbox.test\r\nContent-Length: 0\r\n\r\n`],
  ]
  for (const [what, head] of heads) {
    it(`by ${what} never becomes two requests`, async () => {
      await using edge = await edgeFixture()
      const { Host, seen } = await noting(edge)
      const text = await rawExchange(
        edge.port,
        `POST /first HTTP/1.1\r\nHost: ${Host}\r\nX-Last: 1\r\nConnection: close\r\n${head}`,
      )
      assert.equal(statusOf(text), 400, text)
      assert.ok(!seen.some((request) => request.includes('smuggled')), `${seen}`)
    })
  }

  it('does not arise from headers that Connection asks to drop', async () => {
    await using edge = await edgeFixture()
    const { Host, seen } = await noting(edge)
    const hop = 'Connection: close, Content-Length, Transfer-Encoding, Host'
    await rawExchange(
      edge.port,
      `POST /a HTTP/1.1\r\nHost: ${Host}\r\n${hop}\r\nContent-Length: ${smuggled.length}\r\n\r\n${smuggled}`,
    )
    assert.deepEqual(seen, [`POST /a ${smuggled}`])
  })

  it('does not arise from a length that is hidden behind many headers', async () => {
    await using edge = await edgeFixture()
    const { Host, seen } = await noting(edge)
    const ask = (headers: number) =>
      rawExchange(
        edge.port,
        `POST /a HTTP/1.1\r\nHost: ${Host}\r\nConnection: close\r\n${'a:\r\n'.repeat(headers)}Content-Length: ${smuggled.length}\r\n\r\n${smuggled}`,
      )
    assert.match(await ask(600), /^HTTP\/1\.1 431 .*Too many headers: at most 500 are passed on/s)
    assert.equal(statusOf(await ask(2500)), 431)
    assert.deepEqual(seen, [])
  })
})

describe('a hostile head', () => {
  it('is rejected if it is larger than the limit', async () => {
    await using edge = await edgeFixture()
    const { Host } = await noting(edge)
    const text = await rawExchange(
      edge.port,
      `GET / HTTP/1.1\r\nHost: ${Host}\r\nX: ${'x'.repeat(70_000)}\r\n\r\n`,
    )
    assert.equal(statusOf(text), 431)
  })

  it('reaches nobody if it has control bytes in the path, a header or the host', async () => {
    await using edge = await edgeFixture()
    const { Host, seen } = await noting(edge)
    for (const head of [
      `GET /a\0b HTTP/1.1\r\nHost: ${Host}`,
      `GET /a\rb HTTP/1.1\r\nHost: ${Host}`,
      `GET /a\tb HTTP/1.1\r\nHost: ${Host}`,
      `GET /\u00e9 HTTP/1.1\r\nHost: ${Host}`,
      `GET / HTTP/1.1\r\nHost: ${Host}\r\nX: a\0b`,
      `GET / HTTP/1.1\r\nHost: ${Host}\r\nX: a\rb`,
      `GET / HTTP/1.1\r\nHost: ${Host}\0.evil.example`,
      `GET http://evil.example/ HTTP/1.1\r\nHost: ${Host}`,
      `GET evil.example/ HTTP/1.1\r\nHost: ${Host}`,
    ]) {
      const text = await rawExchange(edge.port, `${head}\r\nConnection: close\r\n\r\n`)
      assert.equal(statusOf(text), 400, JSON.stringify(head))
    }
    assert.deepEqual(seen, [])
  })

  it('opens nothing if it is a CONNECT', async () => {
    await using edge = await edgeFixture()
    const { Host, seen } = await noting(edge)
    const text = await rawExchange(edge.port, `CONNECT ${Host}:80 HTTP/1.1\r\nHost: ${Host}\r\n\r\n`).catch(
      () => '',
    )
    assert.equal(text, '')
    assert.deepEqual(seen, [])
  })
})

describe('a client that keeps sending after the edge has answered', () => {
  it('reads the answer and may use its connection again', async () => {
    await using edge = await edgeFixture()
    const { Host } = await noting(edge)
    const body = 'x'.repeat(3_000_000)
    const refused = `POST / HTTP/1.1\r\nHost: 80-inone.sandbox.test\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    const text = await rawExchange(
      edge.port,
      `${refused}GET / HTTP/1.1\r\nHost: ${Host}\r\nConnection: close\r\n\r\n`,
    )
    assert.equal(statusOf(text), 502)
    assert.match(text, /was not found[\s\S]*HTTP\/1\.1 200 OK[\s\S]*answered/)
  })

  it('is cut off when it does not stop', async () => {
    const clock = new ManualClock()
    await using edge = await edgeFixture()
    const service = await edge.service((request, response) => {
      response.end('enough')
      discardBody(request, response, clock)
    })
    const socket = net.connect(service.port, '127.0.0.1')
    socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf')
    await once(socket, 'data')
    clock.advance(9_999)
    socket.write('more')
    assert.equal((await fetchOnce(service.port)).body, 'enough')
    assert.equal(socket.readableEnded, false)
    clock.advance(1)
    await new Promise((resolve) => socket.on('error', () => {}).once('close', resolve))
  })
})
