import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { openApi } from '../../test/support/api.ts'

describe('the dashboard over the API', () => {
  it('is one page for every view, which cannot be framed and loads nothing from other hosts', async () => {
    await using warren = await openApi({ domain: 'sandboxes.test:8443' })
    for (const path of ['/dashboard', '/dashboard/', '/dashboard/sandboxes/iabc?team=1']) {
      const { status, headers, body } = await warren.ask('GET', path, { headers: { 'x-api-key': undefined } })
      assert.equal(status, 200)
      assert.match(body, /src="\/dashboard\/assets\/main-1\.js"/)
      const policy = String(headers['content-security-policy'])
      assert.match(
        policy,
        /default-src 'none'.*connect-src 'self' https:\/\/\*\.sandboxes\.test:8443;.*frame-ancestors 'none'/,
      )
      assert.equal(headers['set-cookie'], undefined)
      assert.equal(headers['cache-control'], 'no-cache')
    }
    const bare = await warren.ask('GET', '/', { headers: { 'x-api-key': undefined } })
    assert.deepEqual([bare.status, bare.headers.location], [302, '/dashboard'])
  })

  it('tells the page if isolation is weaker than wanted, and only then', async () => {
    const weaker = { what: 'Sandboxes are paper bags.', weakness: 'Bags tear.' }
    for (const weakerIsolation of [weaker, undefined]) {
      await using warren = await openApi({ weakerIsolation })
      const { body } = await warren.ask('GET', '/dashboard')
      const isolations = [...body.matchAll(/<meta name="warren-isolation[a-z-]*" content="(.*)">/g)]
      assert.deepEqual(
        isolations.map(([, text]) => text),
        Object.values(weakerIsolation ?? {}),
      )
    }
  })

  it('sends files compressed as the browser accepts them, cacheable for ever', async () => {
    await using warren = await openApi()
    const ask = (encoding: string) =>
      warren.api.inject({ url: '/dashboard/assets/main-1.js', headers: { 'accept-encoding': encoding } })
    const [br, gzip, plain] = await Promise.all(['gzip, br', 'gzip', 'identity'].map(ask))
    assert.equal(brotliDecompressSync(br!.rawPayload).toString(), 'run()')
    assert.equal(gunzipSync(gzip!.rawPayload).toString(), 'run()')
    assert.equal(plain!.body, 'run()')
    assert.match(String(br!.headers['cache-control']), /immutable/)
    assert.equal(br!.headers['x-content-type-options'], 'nosniff')
    assert.equal((await warren.ask('GET', '/dashboard/assets/..%2fsecrets.json')).status, 404)
  })
})
