/** Lines A of what will be tried against us: strangers, neighbours, and requests made to break a parser. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import net from 'node:net'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { type ApiOptions, anyIsolation, joinWarren, type Warren } from '../support/warren.ts'

describe('tenancy', () => {
  let warren: Warren
  let mine: Sandbox
  let theirKey: string
  before(async () => {
    warren = await joinWarren(anyIsolation)
    mine = await Sandbox.create('base', warren.client)
    const operator = { headers: { 'X-Admin-Token': warren.adminToken }, key: null }
    await warren.api('/admin/teams', { ...operator, body: { name: 'stranger' } })
    const keyed = await warren.api('/admin/teams/stranger/api-keys', { ...operator, body: { name: 'k' } })
    theirKey = ((await keyed.json()) as { key: string }).key
  })
  after(async () => {
    await mine?.kill()
    await warren?.stop()
  })

  it('no key, a wrong one, an empty one and a malformed one all get 401 and no hint', async () => {
    const unknown = [`e2b_${'0'.repeat(40)}`, `e2b_${'f'.repeat(40)}`, warren.apiKey.slice(0, -1).concat('x')]
    const bodies = new Set<string>()
    for (const key of unknown) {
      const answer = await warren.api('/v2/sandboxes', { key })
      assert.equal(answer.status, 401)
      const body = await answer.text()
      assert.ok(!body.includes(key))
      bodies.add(body)
    }
    assert.ok(bodies.size <= 2, 'only the form of a key may make a difference')
    for (const key of [null, '', ' ', 'x'.repeat(10_000)]) {
      assert.equal((await warren.api('/v2/sandboxes', { key })).status, 401)
    }
  })

  it('another team gets the same answer for my sandbox as for a missing one', async () => {
    const routes: [string, ApiOptions][] = [
      ['', {}],
      ['', { method: 'DELETE' }],
      ['/timeout', { body: { timeout: 60 } }],
      ['/refreshes', { body: { duration: 60 } }],
      ['/connect', { body: { timeout: 60 } }],
      ['/logs', {}],
      ['/metrics', {}],
    ]
    const nobody = `i${'z'.repeat(20)}`
    for (const [path, options] of routes) {
      const ask = async (id: string) => {
        const answer = await warren.api(`/sandboxes/${id}${path}`, { ...options, key: theirKey })
        return { status: answer.status, body: (await answer.text()).replaceAll(id, 'ID') }
      }
      assert.deepEqual(await ask(mine.sandboxId), await ask(nobody), `${options.method ?? ''} ${path}`)
    }
    assert.equal(await mine.isRunning(), true)
  })

  it('another team cannot reach the agent of my sandbox with its own token', async () => {
    const other = await Sandbox.create('base', { ...warren.client, apiKey: theirKey })
    try {
      const detail = await warren.api(`/sandboxes/${other.sandboxId}`, { key: theirKey })
      const { envdAccessToken } = (await detail.json()) as { envdAccessToken: string }
      const ask = (token: string) =>
        fetch(`${warren.url}/filesystem.Filesystem/Stat`, {
          method: 'POST',
          headers: {
            'Content-Type': 'application/json',
            'E2b-Sandbox-Id': mine.sandboxId,
            'E2b-Sandbox-Port': '49983',
            'X-Access-Token': token,
          },
          body: '{"path":"/"}',
        })
      assert.equal((await ask(envdAccessToken)).status, 401)
      assert.equal((await ask('')).status, 401)
    } finally {
      await other.kill()
    }
  })

  it('ids cannot be guessed: each has at least 100 bits, and all differ', async () => {
    assert.match(mine.sandboxId, /^i[a-z0-9]{20}$/)
    assert.ok(Math.log2(36 ** 20) > 100)
  })

  it('tricks with lengths and encodings get 400, and the connection is closed', async () => {
    const { hostname, port } = new URL(warren.url)
    const heads = [
      'POST /v2/sandboxes HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      'POST /v2/sandboxes HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd',
      'GET /health HTTP/1.1\r\nHost: a\r\nX-Bad\u0000: 1\r\n\r\n',
      'GET /health HTTP/9.9\r\n\r\n',
      'NONSENSE\r\n\r\n',
    ]
    for (const head of heads) {
      const socket = net.connect(Number(port), hostname)
      let answer = ''
      socket.on('data', (data) => {
        answer += data
      })
      socket.write(head)
      await once(socket, 'close')
      assert.match(answer, /^HTTP\/1\.1 4\d\d /, JSON.stringify(head))
    }
    assert.equal((await warren.api('/health')).status, 200)
  })

  it('deeply nested JSON harms nobody', async () => {
    const depth = 200_000
    const rawBody = `{"templateID":"base","mcp":{"a":${'['.repeat(depth)}${']'.repeat(depth)}}}`
    const answer = await warren.api('/v2/sandboxes', { method: 'POST', rawBody })
    assert.equal(answer.status, 400)
    assert.match(((await answer.json()) as { message: string }).message, /nested deeper/)
    assert.equal((await warren.api('/health')).status, 200)
  })

  it('a thousand idle connections do not block others', async () => {
    const { hostname, port } = new URL(warren.url)
    const sockets = await Promise.all(
      Array.from({ length: 1000 }, async () => {
        const socket = net.connect(Number(port), hostname)
        socket.on('error', () => {})
        await once(socket, 'connect')
        return socket
      }),
    )
    try {
      assert.equal((await warren.api('/v2/sandboxes')).status, 200)
    } finally {
      for (const socket of sockets) socket.destroy()
    }
  })
})
