/**
 * Tests that no host name serves answers of both the API and a sandbox, unless those of the sandbox come without cookies and
 * in a separate origin. They cover both address modes and every kind of host name.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { edgeFixture, fetchOnce } from './edge-fixture.ts'

const sandboxID = 'ipage'
const routing = { 'E2b-Sandbox-Id': sandboxID, 'E2b-Sandbox-Port': '80' }

const modes = {
  'without a domain': {
    domain: null,
    shared: ['localhost', 'localhost:3000', '127.0.0.1', '127.0.0.1:3000', '[::1]:3000', 'LOCALHOST.'],
    own: [`80-${sandboxID}.localhost:3000`, `80-${sandboxID}.localhost`, `80-${sandboxID}.anything.test`],
  },
  'with a domain': {
    domain: 'warren.test:8443',
    shared: [
      ...['warren.test', 'warren.test:8443', 'api.warren.test', 'api.warren.test:8443', 'API.WARREN.TEST'],
      ...['sandbox.warren.test', 'other.warren.test', 'api.warren.test.', 'localhost', '10.1.2.3'],
    ],
    own: [`80-${sandboxID}.warren.test`, `80-${sandboxID}.warren.test:8443`, `80-${sandboxID}.WARREN.test.`],
  },
}

for (const [mode, { domain, shared, own }] of Object.entries(modes)) {
  describe(mode, () => {
    async function pageServer() {
      const edge = await edgeFixture({ domain })
      const service = await edge.service((request, response) => {
        const cookies = ['own=1', 'wide=1; Domain=warren.test', 'wider=1; Domain=localhost']
        response.writeHead(200, { 'Set-Cookie': cookies, 'Service-Worker-Allowed': '/' })
        response.end(`from the sandbox, told ${request.headers.cookie}`)
      })
      edge.sandbox({ sandboxID }).map(80, service.port)
      return edge
    }
    const ask = (port: number, headers: Record<string, string>) =>
      fetchOnce(port, { headers: { ...headers, Cookie: 'session=secret' } })

    it('a name of the API never shares its origin or its cookies with a sandbox', async () => {
      await using edge = await pageServer()
      let routed = 0
      for (const Host of shared) {
        const { status, headers, body } = await ask(edge.port, { Host, ...routing })
        if (!body.includes('from the sandbox')) {
          assert.ok(body === 'the API' || status === 400, `${Host}: ${body}`)
          continue
        }
        routed++
        assert.equal(body, 'from the sandbox, told undefined', Host)
        assert.equal(headers['content-security-policy'], 'sandbox', Host)
        assert.equal(headers['set-cookie'], undefined, Host)
        assert.equal(headers['service-worker-allowed'], undefined, Host)
      }
      assert.ok(routed > 0, 'routing headers count on some of these names')
    })

    it('a name of a sandbox never reaches the API, and its cookies stay its own', async () => {
      await using edge = await pageServer()
      for (const Host of own) {
        for (const path of ['/', '/sandboxes', '/health', '//api.warren.test/sandboxes']) {
          const headers = {
            Host,
            Cookie: 'session=secret',
            'E2b-Sandbox-Id': 'iother',
            'E2b-Sandbox-Port': '1',
          }
          const answer = await fetchOnce(edge.port, { path, headers })
          assert.equal(answer.body, 'from the sandbox, told session=secret', `${Host}${path}`)
          assert.deepEqual(answer.headers['set-cookie'], ['own=1'], Host)
        }
      }
    })

    it('a name of an unknown sandbox does not reach the API either', async () => {
      await using edge = await pageServer()
      for (const Host of own) {
        const { status, body } = await ask(edge.port, { Host: Host.replace(sandboxID, 'igone') })
        assert.equal(status, 502, body)
        assert.match(body, /was not found/)
      }
    })
  })
}
