// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${PORT} is part of the wire
/** Tests of services that expect another host name than the client used, and of services that speak TLS. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import http, { type RequestListener } from 'node:http'
import https from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { describe, it } from 'node:test'
import { envdPort } from '../contract/constants.ts'
import { ingressOf } from '../core/sandbox/network/routes.ts'
import { issueCertificate, makeAuthority } from '../lib/certificates.ts'
import { domain, edgeFixture, fetchOnce, rawExchange, to } from './edge-fixture.ts'

const showHosts: RequestListener = ({ headers }, response) => {
  response.end(`${headers.host} for ${headers['x-forwarded-host']}`)
}

describe('a masked host', () => {
  it("is what services see, with their port; the client's host is in another header", async () => {
    await using edge = await edgeFixture()
    const service = await edge.service(showHosts)
    const sandbox = edge.sandbox({ maskHost: 'localhost:${PORT}' })
    for (const port of [3000, 8080]) {
      sandbox.map(port, service.port)
      const { body } = await fetchOnce(edge.port, { headers: to(sandbox, port) })
      assert.equal(body, `localhost:${port} for ${port}-${sandbox.sandboxID}.${domain}`)
    }
    const spoofed = { ...to(sandbox, 3000), 'X-Forwarded-Host': 'evil.test' }
    const { body } = await fetchOnce(edge.port, { headers: spoofed })
    assert.doesNotMatch(body, /evil/)
  })

  it('does not apply to the agent, and applies to upgrades too', async () => {
    await using edge = await edgeFixture()
    const service = await edge.service(showHosts)
    service.on('upgrade', ({ headers }, socket) => {
      socket.end(`HTTP/1.1 101 OK\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n${headers.host}`)
    })
    const sandbox = edge.sandbox({ maskHost: 'inner.test' })
    sandbox.map(envdPort, service.port)
    sandbox.map(80, service.port)
    const { body } = await fetchOnce(edge.port, { headers: to(sandbox, envdPort) })
    assert.match(body, new RegExp(`^${envdPort}-`))
    const { Host } = to(sandbox, 80)
    const upgrade = `GET / HTTP/1.1\r\nHost: ${Host}\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n`
    assert.match(await rawExchange(edge.port, upgrade), /inner\.test$/)
  })
})

describe('a port that speaks TLS', () => {
  const { certificate: cert, key } = issueCertificate(makeAuthority('inside'), { names: ['inside'], days: 1 })

  async function tlsService(listener: RequestListener): Promise<https.Server & { port: number }> {
    const server = https.createServer({ cert, key }, listener)
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return Object.assign(server, { port: (server.address() as AddressInfo).port })
  }

  it('is reached whatever its certificate says, over reused connections', async () => {
    await using edge = await edgeFixture()
    let connections = 0
    const service = await tlsService(async (request, response) => {
      const body = (await request.toArray()).join('')
      response.end(`${request.method} ${body} ${'encrypted' in request.socket}`)
    })
    service.on('secureConnection', () => connections++)
    try {
      const sandbox = edge.sandbox({ tlsPorts: new Set([8443]) })
      sandbox.map(8443, service.port)
      for (let i = 0; i < 3; i++) {
        const sent = { method: 'POST', headers: to(sandbox, 8443), body: `sent ${i}` }
        assert.equal((await fetchOnce(edge.port, sent)).body, `POST sent ${i} true`)
      }
      assert.equal(connections, 1)
    } finally {
      edge.close()
      service.close()
    }
  })

  it('streams large answers whole, and carries upgrades both ways', async () => {
    await using edge = await edgeFixture()
    const large = Buffer.alloc(5 * 1024 * 1024, 'warren ')
    const service = await tlsService((_request, response) => response.end(large))
    service.on('upgrade', (_request, socket: Socket) => {
      socket.write('HTTP/1.1 101 OK\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n')
      socket.pipe(socket)
    })
    try {
      const sandbox = edge.sandbox({ tlsPorts: new Set([8443]) })
      sandbox.map(8443, service.port)
      const { body } = await fetchOnce(edge.port, { headers: to(sandbox, 8443) })
      assert.equal(body, large.toString('latin1'))
      const headers = { ...to(sandbox, 8443), Connection: 'Upgrade', Upgrade: 'echo' }
      const request = http.request({ host: '127.0.0.1', port: edge.port, headers }).end()
      const [, socket] = (await once(request, 'upgrade')) as [unknown, Socket]
      socket.write('there and back')
      assert.equal(String((await once(socket, 'data'))[0]), 'there and back')
      socket.destroy()
    } finally {
      edge.close()
      service.close()
    }
  })

  it('gets another error than a closed port, at once, if it does not speak TLS', async () => {
    await using edge = await edgeFixture()
    const plain = await edge.service((_request, response) => response.end('plain'))
    const rude = await edge.raw((socket) => socket.destroy())
    const sandbox = edge.sandbox({ tlsPorts: new Set([1001, 1002, 1003]) })
    sandbox.map(1001, plain.port)
    sandbox.map(1002, rude.port)
    const messages: Record<number, RegExp> = {
      1001: /before it answered/,
      1002: /before it answered/,
      1003: /port is not open/,
    }
    for (const [port, words] of Object.entries(messages)) {
      const { status, body } = await fetchOnce(edge.port, { headers: to(sandbox, Number(port)) })
      assert.equal(status, 502)
      assert.match(body, words)
    }
  })

  it('is disconnected when the sandbox ends, even if it never answers', async () => {
    await using edge = await edgeFixture()
    const silent = await edge.raw(() => {})
    const sandbox = edge.sandbox({ tlsPorts: new Set([443]) })
    sandbox.map(443, silent.port)
    const asked = fetchOnce(edge.port, { headers: to(sandbox, 443) })
    await new Promise((resolve) => setTimeout(resolve, 50))
    sandbox.remove()
    assert.match((await asked).body, /was not found/)
  })
})

it("the masked host and the TLS ports come from the sandbox's create", () => {
  assert.deepEqual(ingressOf(null), {})
  assert.deepEqual(ingressOf({ maskRequestHost: null, httpsPorts: [] }), {})
  assert.deepEqual(ingressOf({ maskRequestHost: 'a:${PORT}', httpsPorts: [1, 2] }), {
    maskHost: 'a:${PORT}',
    tlsPorts: new Set([1, 2]),
  })
})
