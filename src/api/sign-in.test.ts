/** The sign-in page of the command line sends a token to the command line alone (J3). */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'

type App = Awaited<ReturnType<typeof openApi>>
const commandLine = 'http://localhost:43210'

const show = ({ api }: App, next: string, headers: Record<string, string> = {}) =>
  api.inject({ url: '/api/cli', query: { next }, headers: { host: 'localhost:3000', ...headers } })

const sealIn = (page: string): string => /name="seal" value="([^"]+)"/.exec(page)?.[1] ?? ''

function send(
  { api, key }: App,
  fields: { next: string; seal: string; key?: string },
  headers: Record<string, string> = {},
) {
  return api.inject({
    method: 'POST',
    url: '/api/cli',
    headers: {
      host: 'localhost:3000',
      'content-type': 'application/x-www-form-urlencoded',
      ...headers,
    },
    payload: new URLSearchParams({ key, ...fields }).toString(),
  })
}

describe('signing in the command line', () => {
  it('shows the address before it asks for a key, and sends the token there', async () => {
    await using app = await openApi()
    const page = await show(app, commandLine, { 'sec-fetch-site': 'none' })
    assert.equal(page.statusCode, 200)
    const [shownAt, askedAt] = [`<code>${commandLine}/`, 'name="key"'].map((text) => page.body.indexOf(text))
    assert.ok(shownAt! > 0 && shownAt! < askedAt!)
    const form = { next: commandLine, seal: sealIn(page.body) }
    const again = await send(app, { ...form, key: 'e2b_wrong' })
    assert.equal(again.statusCode, 401)
    const answer = await send(app, { ...form, seal: sealIn(again.body) }, { 'sec-fetch-site': 'same-origin' })
    assert.equal(answer.statusCode, 303)
    assert.match(String(answer.headers.location), /^http:\/\/localhost:43210\/\?email=.*&accessToken=sk_e2b_/)
  })

  const elsewhere = [
    ...['', 'x', 'http://localhost', 'http://localhost:80', 'http://localhost:443', 'http://localhost:99999'],
    ...[
      'https://localhost:43210',
      'http://localhost:43210/files?signature=v1_x',
      'http://localhost:43210/#x',
    ],
    ...['http://localhost:43210//evil.test', 'http://localhost:43210?x', ' http://localhost:43210'],
    ...['http://evil.test:43210', 'http://localhost.evil.test:43210', 'http://8000-abc.localhost:43210'],
    ...['http://localhost:43210@evil.test:43210', 'http://user@localhost:43210', 'http://localhost.:43210'],
    ...['http://LOCALHOST:43210', 'http://0x7f.1:43210', 'http://2130706433:43210', 'http://127.1:43210'],
    ...[
      'http://0:43210',
      'http://[::1]:43210',
      'http://[::ffff:127.0.0.1]:43210',
      'http:\\\\localhost:43210',
    ],
    ...['http://localhost:04321', 'http://localhost:43210\n', 'http:localhost:43210', 'javascript:alert(1)'],
  ]
  it('rejects any address that does not have the form which the command line sends', async () => {
    await using app = await openApi()
    const { body } = await show(app, commandLine)
    for (const next of elsewhere) {
      assert.equal((await show(app, next)).statusCode, 400, next)
      const answer = await send(app, { next, seal: sealIn(body) })
      assert.deepEqual([answer.statusCode, answer.headers.location], [400, undefined], next)
    }
  })

  it('rejects ports on which the server itself answers, by any name', async () => {
    await using app = await openApi({ domain: 'sandboxes.test:8443' })
    for (const port of [3000, 8443, 8080]) {
      for (const host of ['localhost', '127.0.0.1']) {
        const page = await show(app, `http://${host}:${port}/`, { host: 'tunnel.test:8080' })
        assert.equal(page.statusCode, 400, `${host}:${port}`)
      }
    }
  })

  it('does not answer a link from another page, and rejects the form of another page', async () => {
    await using app = await openApi()
    const { body } = await show(app, commandLine)
    for (const site of ['cross-site', 'same-site', 'same-origin']) {
      const page = await show(app, commandLine, { 'sec-fetch-site': site })
      assert.deepEqual([page.statusCode, sealIn(page.body)], [403, ''], site)
    }
    const form = { next: commandLine, seal: sealIn(body) }
    assert.equal((await send(app, form, { 'sec-fetch-site': 'cross-site' })).statusCode, 400)
  })

  it('accepts a form only if it was shown for this address, and only for a short time', async () => {
    await using app = await openApi()
    const seal = sealIn((await show(app, commandLine)).body)
    const attempts = [
      { next: commandLine, seal: '' },
      { next: commandLine, seal: seal.replace(/^\d/, '9') },
      { next: 'http://localhost:43211', seal },
    ]
    for (const form of attempts) assert.equal((await send(app, form)).statusCode, 400)
    app.fixture.clock.advance(15 * 60_000)
    assert.equal((await send(app, { next: commandLine, seal })).statusCode, 400)
  })
})
