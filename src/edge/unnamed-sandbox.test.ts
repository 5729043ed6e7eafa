/** Requests of clients that forget to name the sandbox: its access token tells which one they are for. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { edgeFixture, fetchOnce } from './edge-fixture.ts'
import { textOfToken } from './sleepy-edge-fixture.ts'

const envd = 49983
const tokenOf = (digit: string) => digit.repeat(64)
const noPeers = { forwarder: undefined }

async function withTwo(options = {}) {
  const edge = await edgeFixture(options)
  const service = await textOfToken(edge)
  const sandboxes = ['a', 'b'].map((digit) => {
    const sandbox = edge.sandbox({ sandboxID: `i${digit}`, agentToken: tokenOf(digit) })
    sandbox.map(envd, service.port)
    return sandbox
  })
  const ask = (token: string, path = '/files?path=x', more = {}) =>
    fetchOnce(edge.port, { path, headers: { Host: '127.0.0.1', 'X-Access-Token': token, ...more } })
  return { edge, sandboxes, ask, [Symbol.asyncDispose]: () => edge[Symbol.asyncDispose]() }
}

describe('a request with nothing but an access token', () => {
  it('reaches the agent of the sandbox that has the token', async () => {
    await using two = await withTwo(noPeers)
    for (const digit of ['a', 'b']) {
      const { status, body } = await two.ask(tokenOf(digit))
      assert.deepEqual([status, body], [200, tokenOf(digit)])
    }
  })

  it('finds nothing once that sandbox is gone, as clients expect of one that was killed', async () => {
    await using two = await withTwo(noPeers)
    two.sandboxes[0]!.remove()
    const { status, body } = await two.ask(tokenOf('a'), '/health')
    assert.deepEqual([status, JSON.parse(body)], [502, { message: 'The sandbox was not found', code: 502 }])
    assert.equal((await two.ask(tokenOf('b'), '/health')).status, 200)
  })

  it('does not learn in a cluster that there is no such sandbox', async () => {
    const forwarder = { forward: async () => 'local' as const }
    await using two = await withTwo({ forwarder })
    const { status, body } = await two.ask(tokenOf('c'))
    assert.deepEqual([status, /Update the client, or use a domain/.test(body)], [421, true])
    assert.equal((await two.ask(tokenOf('a'))).status, 200)
  })

  it('says in a cluster too that the sandbox of a signed link is frozen', async () => {
    const forwarder = { forward: async () => 'here' as const }
    await using two = await withTwo({ forwarder, findSigned: async () => undefined })
    const { runID } = two.edge.routes.get('ia')!
    two.edge.routes.markFrozen('ia', runID, 'The disk is nearly full.')
    const digest = createHash('sha256')
      .update(`x:read::${tokenOf('a')}`)
      .digest('base64')
    const query = new URLSearchParams({ path: 'x', signature: `v1_${digest.replace(/=+$/, '')}` })
    const { status } = await fetchOnce(two.edge.port, {
      path: `/files?${query}`,
      headers: { Host: '127.0.0.1' },
    })
    assert.equal(status, 507)
  })

  it('reaches no internal route', async () => {
    await using two = await withTwo(noPeers)
    for (const token of [tokenOf('a'), tokenOf('c')]) {
      assert.equal((await two.ask(token, '/init')).status, 404)
    }
  })

  it('is for the API if the token has another form, or on a host of its own', async () => {
    await using two = await withTwo(noPeers)
    for (const token of ['', 'a', tokenOf('a').slice(1), tokenOf('A'), `${tokenOf('a')}a`]) {
      assert.equal((await two.ask(token)).body, 'the API', token)
    }
    assert.equal((await two.ask(tokenOf('a'), '/files', { Host: 'api.sandbox.test' })).body, 'the API')
  })
})

describe('a request that names a sandbox, but is for the API', () => {
  it('gets there', async () => {
    await using two = await withTwo(noPeers)
    const named = { 'E2b-Sandbox-Id': 'ia', 'E2b-Sandbox-Port': String(envd) }
    for (const path of ['/sandboxes/ia/connect', '/v2/sandboxes/ia/connect', '/sandboxes/ia-0123/connect']) {
      assert.equal((await two.ask('', path, named)).body, 'the API', path)
    }
    for (const path of ['/sandboxes/ia', '/files', '/sandboxes/ia/connect/x', '/x/sandboxes/ia/connect']) {
      assert.equal((await two.ask('t', path, named)).body, 't', path)
    }
    const other = await two.ask('t', '/sandboxes/ia/connect', { ...named, 'E2b-Sandbox-Port': '80' })
    assert.equal(other.status, 502)
  })
})
