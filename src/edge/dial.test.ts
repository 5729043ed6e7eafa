import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import net from 'node:net'
import { describe, it } from 'node:test'
import { issueCertificate, makeAuthority } from '../lib/certificates.ts'
import { agentToken, type EdgeFixture, edgeFixture, fetchOnce, to } from './edge-fixture.ts'

const envd = 49983

/** Stands in for the agent: relays to the servers in `loopback`, keyed by the port inside. */
async function relayingAgent(edge: EdgeFixture, loopback: Map<number, number>) {
  const asked: string[] = []
  const service = await edge.service((_, response) => response.end('agent'))
  service.on('upgrade', (request, socket) => {
    asked.push(`${request.method} ${request.url} ${request.headers.upgrade}`)
    const port = loopback.get(Number(new URL(request.url!, 'http://agent').searchParams.get('port')))
    if (request.headers['x-access-token'] !== agentToken || port === undefined) {
      return socket.end('HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
    }
    const inner = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true }, () => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: warren-relay\r\n\r\n')
      socket.pipe(inner).pipe(socket)
    })
    inner.on('error', () => socket.destroy())
    socket.on('error', () => inner.destroy())
  })
  return { port: service.port, asked }
}

describe('a service on the loopback of the sandbox', () => {
  it('is reached through the agent, the way is remembered, and the connection is reused', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.service((request, response) => request.pipe(response))
    const agent = await relayingAgent(edge, new Map([[8000, service.port]]))
    sandbox.map(envd, agent.port)
    for (const body of ['one', 'two', 'three']) {
      const answer = await fetchOnce(edge.port, { method: 'POST', headers: to(sandbox, 8000), body })
      assert.deepEqual([answer.status, answer.body], [200, body])
    }
    assert.deepEqual(agent.asked, ['GET /relay?port=8000 warren-relay'])
  })

  it('can be tunnelled to, and may speak first', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.raw((socket) => {
      socket.once('data', () => {
        socket.write(
          'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: greeting\r\n\r\nhello',
        )
        socket.on('data', (data) => socket.write(data))
      })
    })
    sandbox.map(envd, (await relayingAgent(edge, new Map([[8000, service.port]]))).port)
    const headers = { ...to(sandbox, 8000), Connection: 'Upgrade', Upgrade: 'greeting' }
    const request = http.get({ port: edge.port, headers, agent: false })
    const [, socket, head] = (await once(request, 'upgrade')) as [unknown, net.Socket, Buffer]
    socket.unshift(head)
    assert.equal(`${(await once(socket, 'data'))[0]}`, 'hello')
    socket.write('echo')
    assert.equal(`${(await once(socket, 'data'))[0]}`, 'echo')
    socket.destroy()
  })

  it('may speak TLS', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox({ tlsPorts: new Set([8443]) })
    const leaf = issueCertificate(makeAuthority('inside'), { names: ['inside'], days: 1 })
    const service = https.createServer({ cert: leaf.certificate, key: leaf.key }, (request, response) => {
      request.pipe(response)
    })
    await once(service.listen(0, '127.0.0.1'), 'listening')
    const inside = new Map([[8443, (service.address() as net.AddressInfo).port]])
    sandbox.map(envd, (await relayingAgent(edge, inside)).port)
    try {
      for (const body of ['one', 'two']) {
        const sent = { method: 'POST', headers: to(sandbox, 8443), body }
        assert.equal((await fetchOnce(edge.port, sent)).body, body)
      }
    } finally {
      edge.close()
      service.close()
    }
  })

  it('is found again after it moved to the address of the sandbox', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const answerWith = (text: string) =>
      edge.service((_, response) => response.writeHead(200, { Connection: 'close' }).end(text))
    const loopback = new Map([[8000, (await answerWith('inside')).port]])
    const agent = await relayingAgent(edge, loopback)
    sandbox.map(envd, agent.port)
    assert.equal((await fetchOnce(edge.port, { headers: to(sandbox, 8000) })).body, 'inside')
    loopback.clear()
    sandbox.map(8000, (await answerWith('outside')).port)
    assert.equal((await fetchOnce(edge.port, { headers: to(sandbox, 8000) })).body, 'outside')
    const asked = agent.asked.length
    assert.equal((await fetchOnce(edge.port, { headers: to(sandbox, 8000) })).body, 'outside')
    assert.equal(agent.asked.length, asked)
  })
})

describe('a port that refuses', () => {
  it('is tried again, and no byte of the body is lost in between', async () => {
    await using edge = await edgeFixture({ retryWaitsMs: [0, 0, 0, 0, 0] })
    const sandbox = edge.sandbox()
    const service = await edge.service((request, response) => request.pipe(response))
    const route = edge.routes.get(sandbox.sandboxID)!
    let refusals = 4
    const endpoint = () => ({ host: '127.0.0.1', port: refusals-- > 0 ? 1 : service.port })
    edge.routes.set({ ...route, endpoint })
    const body = 'x'.repeat(300_000)
    assert.equal((await fetchOnce(edge.port, { method: 'POST', headers: to(sandbox, 80), body })).body, body)
  })

  it('fails after the last wait, and the agent was asked each time', async () => {
    await using edge = await edgeFixture({ retryWaitsMs: [0, 0, 0, 0, 0] })
    const sandbox = edge.sandbox()
    const agent = await relayingAgent(edge, new Map())
    sandbox.map(envd, agent.port)
    const { status, body } = await fetchOnce(edge.port, { headers: to(sandbox, 81) })
    assert.equal(status, 502)
    assert.match(JSON.parse(body).message, /port is not open/)
    assert.equal(agent.asked.length, 6)
  })

  it('fails at once if it is the agent itself', async () => {
    await using edge = await edgeFixture({ retryWaitsMs: [3_600_000] })
    const { status, body } = await fetchOnce(edge.port, {
      path: '/health',
      headers: to(edge.sandbox(), envd),
    })
    assert.equal(status, 502)
    assert.match(JSON.parse(body).message, /port is not open/)
  })

  it('is a plain 502 if the sandbox ends while the edge still tries', async () => {
    await using edge = await edgeFixture({ retryWaitsMs: [3_600_000] })
    const sandbox = edge.sandbox()
    const agent = await relayingAgent(edge, new Map())
    sandbox.map(envd, agent.port)
    const answer = fetchOnce(edge.port, { headers: to(sandbox, 80) })
    while (agent.asked.length === 0) await new Promise((resolve) => setImmediate(resolve))
    sandbox.remove()
    const { status, body } = await answer
    assert.equal(status, 502)
    assert.match(JSON.parse(body).message, /was not found/)
  })
})
