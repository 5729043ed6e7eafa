import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import { test } from 'node:test'
import { eventually } from '../../test/support/eventually.ts'
import { edgeFixture, fetchOnce, to } from './edge-fixture.ts'
import type { FinishedRequest } from './request-watch.ts'

async function watchedEdge() {
  const finished: FinishedRequest[] = []
  const edge = await edgeFixture({ onFinished: (one) => finished.push(one) })
  const next = async () => {
    await eventually(() => assert.ok(finished.length > 0, 'no request has ended'))
    return finished.shift()!
  }
  return { edge, next }
}

test('answers of services and of the edge itself carry the request id', async () => {
  const { edge, next } = await watchedEdge()
  await using _ = edge
  const service = await edge.service((_request, response) => response.end('fine'))
  const sandbox = edge.sandbox()
  sandbox.map(8080, service.port)
  const answer = await fetchOnce(edge.port, { headers: to(sandbox, 8080) })
  const finished = await next()
  assert.equal(answer.headers['x-request-id'], finished.requestID)
  assert.deepEqual(
    { ...finished, requestID: '', answeredMs: 0, totalMs: 0 },
    {
      requestID: '',
      method: 'GET',
      sandboxID: sandbox.sandboxID,
      port: 8080,
      target: 'service',
      status: 200,
      answeredMs: 0,
      totalMs: 0,
    },
  )
  assert.ok(finished.answeredMs <= finished.totalMs)
  const missing = await fetchOnce(edge.port, { headers: to({ sandboxID: 'inobody' }, 8080) })
  assert.equal(missing.headers['x-request-id'], (await next()).requestID)
})

test('a request id that a service sets itself is kept', async () => {
  const { edge } = await watchedEdge()
  await using _ = edge
  const service = await edge.service((_request, response) => {
    response.writeHead(200, { 'X-Request-ID': 'of the service' }).end()
  })
  const sandbox = edge.sandbox()
  sandbox.map(8080, service.port)
  const { rawHeaders } = await fetchOnce(edge.port, { headers: to(sandbox, 8080) })
  const names = rawHeaders.filter((name) => name.toLowerCase() === 'x-request-id')
  assert.deepEqual([names.length, rawHeaders[rawHeaders.indexOf(names[0]!) + 1]], [1, 'of the service'])
})

test('a tunnel, and a client that left before its answer, are reported as such', async () => {
  const { edge, next } = await watchedEdge()
  await using _ = edge
  const service = await edge.service(() => {})
  service.on('upgrade', (_request, socket) => {
    socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n')
  })
  const sandbox = edge.sandbox()
  sandbox.map(8080, service.port)
  const headers = to(sandbox, 8080)
  const upgrade = { ...headers, Connection: 'Upgrade', Upgrade: 'test' }
  const tunnel = http.get({ host: '127.0.0.1', port: edge.port, headers: upgrade })
  const [answer, socket] = await once(tunnel, 'upgrade')
  assert.match(answer.headers['x-request-id'], /^[0-9a-f]{16}$/)
  socket.destroy()
  assert.equal((await next()).status, 101)
  const waiting = http.get({ host: '127.0.0.1', port: edge.port, headers }).on('error', () => {})
  await once(service, 'request')
  waiting.destroy()
  assert.equal((await next()).status, 499)
})
