import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import { describe, it } from 'node:test'
import { agentToken, domain, edgeFixture, fetchOnce, to } from './edge-fixture.ts'

const envd = 49983
const browser = {
  'User-Agent': 'Mozilla/5.0 (X11) Firefox/140.0',
  Accept: 'text/html,application/xhtml+xml,*/*;q=0.8',
}

describe('the edge', () => {
  it('passes requests that name no sandbox to the API', async () => {
    await using edge = await edgeFixture()
    for (const Host of ['localhost', '127.0.0.1', `api.${domain}`]) {
      assert.equal((await fetchOnce(edge.port, { headers: { Host } })).body, 'the API')
    }
    const upgrade = { Host: 'localhost', Connection: 'Upgrade', Upgrade: 'websocket' }
    assert.equal((await fetchOnce(edge.port, { headers: upgrade })).body, 'the API')
    const expecting = { Host: 'localhost', Expect: '100-continue', 'Content-Length': '2' }
    assert.equal(
      (await fetchOnce(edge.port, { method: 'POST', headers: expecting, body: 'hi' })).body,
      'the API',
    )
  })

  it('routes to the sandbox by host and by header, each port to its own service', async () => {
    await using edge = await edgeFixture()
    const [one, two] = [edge.sandbox(), edge.sandbox()]
    for (const [sandbox, port] of [
      [one, 80],
      [one, envd],
      [two, 80],
    ] as const) {
      const service = await edge.service((_, response) => response.end(`${sandbox.sandboxID} ${port}`))
      sandbox.map(port, service.port)
    }
    assert.equal((await fetchOnce(edge.port, { headers: to(one, 80) })).body, `${one.sandboxID} 80`)
    assert.equal((await fetchOnce(edge.port, { headers: to(two, 80) })).body, `${two.sandboxID} 80`)
    const headers = { Host: 'localhost', 'E2b-Sandbox-Id': one.sandboxID, 'E2b-Sandbox-Port': `${envd}` }
    assert.equal((await fetchOnce(edge.port, { headers })).body, `${one.sandboxID} ${envd}`)
  })

  it('rejects a bad address with a plain text that says what is wrong', async () => {
    await using edge = await edgeFixture()
    const cases: [http.OutgoingHttpHeaders, string][] = [
      [{ Host: 'localhost', 'E2b-Sandbox-Id': 'iabc' }, 'missing header'],
      [{ Host: `sandbox.${domain}` }, 'Invalid host'],
      [{ Host: `80-i_.${domain}` }, 'Invalid sandbox ID'],
      [{ Host: `70000-iabc.${domain}` }, 'Invalid sandbox port'],
    ]
    for (const [headers, text] of cases) {
      const { status, body, headers: answered } = await fetchOnce(edge.port, { headers })
      assert.deepEqual([status, body, answered['content-type']], [400, text, 'text/plain; charset=utf-8'])
    }
  })

  it('answers 502 for an unknown sandbox and for one that has ended', async () => {
    await using edge = await edgeFixture()
    const gone = edge.sandbox({ sandboxID: 'igone' })
    const service = await edge.service((_, response) => response.end('alive'))
    gone.map(envd, service.port)
    assert.equal((await fetchOnce(edge.port, { path: '/health', headers: to(gone, envd) })).status, 200)
    gone.remove()
    for (const sandboxID of ['igone', 'inever']) {
      const { status, body, headers } = await fetchOnce(edge.port, {
        path: '/health',
        headers: to({ sandboxID }, envd),
      })
      assert.equal(status, 502)
      assert.equal(headers['content-type'], 'application/json; charset=utf-8')
      assert.equal(headers['access-control-allow-origin'], '*')
      assert.deepEqual(JSON.parse(body), {
        sandboxId: sandboxID,
        message: 'The sandbox was not found',
        code: 502,
      })
    }
  })

  it('answers 502 with the port when nothing listens there', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    for (const port of [8080, envd]) {
      const { status, body } = await fetchOnce(edge.port, { headers: to(sandbox, port) })
      assert.equal(status, 502)
      const message = 'The sandbox is running but port is not open'
      assert.deepEqual(JSON.parse(body), { sandboxId: sandbox.sandboxID, message, port, code: 502 })
    }
  })

  it('answers neither of these if the service breaks off before it answers', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    sandbox.map(80, (await edge.raw((socket) => socket.once('data', () => socket.destroy()))).port)
    const { status, body } = await fetchOnce(edge.port, { headers: to(sandbox, 80) })
    assert.equal(status, 502)
    assert.doesNotMatch(JSON.parse(body).message, /was not found|port is not open/)
  })

  it('shows people a page and programs JSON, with the same status', async () => {
    await using edge = await edgeFixture()
    const address = to({ sandboxID: 'inone' }, 80)
    const cases: [http.OutgoingHttpHeaders, string][] = [
      [browser, 'text/html'],
      [{ ...browser, 'Sec-Fetch-Mode': 'navigate' }, 'text/html'],
      [{ ...browser, Accept: '*/*' }, 'text/html'],
      [{ ...browser, Accept: 'application/json' }, 'application/json'],
      [{ ...browser, Accept: 'application/json, text/html' }, 'application/json'],
      [{ ...browser, 'Sec-Fetch-Mode': 'cors' }, 'application/json'],
      [{ ...browser, 'X-Requested-With': 'XMLHttpRequest' }, 'application/json'],
      [{ 'User-Agent': 'e2b-js-sdk/2.51.0' }, 'application/json'],
      [{ 'User-Agent': 'connectrpc/0.12.1' }, 'application/json'],
      [{}, 'application/json'],
    ]
    for (const [headers, type] of cases) {
      const answer = await fetchOnce(edge.port, { headers: { ...address, ...headers } })
      assert.equal(answer.status, 502)
      assert.equal(answer.headers['content-type'], `${type}; charset=utf-8`, JSON.stringify(headers))
      assert.match(answer.body, /The sandbox was not found/)
    }
  })

  it('names in its pages the sandbox and what is wrong, from the first letter to the last', async () => {
    await using edge = await edgeFixture()
    const open = edge.sandbox()
    const closed = edge.sandbox({ trafficToken: 'secret' })
    const wrong = { 'e2b-traffic-access-token': 'abcd' }
    const cases: [sandboxID: string, headers: object, status: number, words: string[]][] = [
      ['inone', {}, 502, ['Sandbox Not Found']],
      [open.sandboxID, {}, 502, ['no service running on port', '3210']],
      [closed.sandboxID, {}, 403, ['Missing Traffic Access Token']],
      [closed.sandboxID, wrong, 403, ['Invalid Traffic Access Token']],
    ]
    for (const [sandboxID, more, status, words] of cases) {
      const headers = { ...to({ sandboxID }, 3210), ...browser, ...more }
      const answer = await fetchOnce(edge.port, { headers })
      assert.equal(answer.status, status)
      assert.match(answer.body, /^<html[ >].*<\/html>$/s)
      for (const word of [sandboxID, ...words]) assert.ok(answer.body.includes(word), word)
    }
  })

  it("answers a browser's preflight and shows the browser the rejection of the request itself", async () => {
    await using edge = await edgeFixture()
    const address = to(edge.sandbox({ trafficToken: 'secret' }), 80)
    const question = {
      Origin: 'http://a.test',
      'Access-Control-Request-Method': 'POST',
      'Access-Control-Request-Headers': 'authorization,e2b-traffic-access-token',
    }
    const allowed = await fetchOnce(edge.port, { method: 'OPTIONS', headers: { ...address, ...question } })
    assert.equal(allowed.status, 204)
    assert.equal(allowed.headers['access-control-allow-headers'], question['Access-Control-Request-Headers'])
    const refused = await fetchOnce(edge.port, {
      method: 'POST',
      headers: { ...address, Origin: 'http://a.test' },
    })
    assert.deepEqual([refused.status, refused.headers['access-control-allow-origin']], [403, '*'])
    assert.equal((await fetchOnce(edge.port, { method: 'OPTIONS', headers: address })).status, 403)
  })

  it('hides the internal routes of the agent however they are spelled, and on its port alone', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.service((request, response) => response.end(`reached ${request.url}`))
    sandbox.map(envd, service.port)
    sandbox.map(80, service.port)
    for (const path of ['/init', '//init', '/INIT/', '/%69nit?x', '/relay?port=22', '/files/../freeze']) {
      const { status, body } = await fetchOnce(edge.port, {
        method: 'POST',
        path,
        headers: to(sandbox, envd),
      })
      assert.equal(status, 404, path)
      const message =
        'This endpoint is reserved for the E2B control plane and is not reachable through the sandbox URL'
      assert.deepEqual(JSON.parse(body), { message, path: path.split('?')[0], code: 404 })
    }
    assert.equal(
      (await fetchOnce(edge.port, { path: '/init', headers: to(sandbox, 80) })).body,
      'reached /init',
    )
  })
})

describe('a sandbox with a traffic token', () => {
  const token = 'ab'.repeat(32)

  it("requires it on every port but the agent's, upgrades included, and hides it from the service", async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox({ trafficToken: token })
    const service = await edge.service((request, response) => response.end(JSON.stringify(request.headers)))
    sandbox.map(80, service.port)
    sandbox.map(envd, service.port)
    const ask = (port: number, headers = {}) =>
      fetchOnce(edge.port, { headers: { ...to(sandbox, port), ...headers } })
    const header = 'e2b-traffic-access-token'
    const start = 'Sandbox is secured with traffic access token. '
    const { sandboxID: sandboxId } = sandbox
    const missing = { sandboxId, message: `${start}Token header '${header}' is missing`, header, code: 403 }
    const wrong = { ...missing, message: `${start}Provided token in header '${header}' is invalid` }

    for (const extra of [{}, { [header]: '' }, { Connection: 'Upgrade', Upgrade: 'websocket' }]) {
      const answer = await ask(80, extra)
      assert.deepEqual([answer.status, JSON.parse(answer.body)], [403, missing])
    }
    for (const value of [token.slice(1), `${token}a`, 'cd'.repeat(32), [token, token]]) {
      const answer = await ask(80, { [header]: value })
      assert.deepEqual([answer.status, JSON.parse(answer.body)], [403, wrong])
    }
    const allowed = await ask(80, { 'E2B-Traffic-Access-Token': token })
    assert.equal(allowed.status, 200)
    assert.equal(JSON.parse(allowed.body)[header], undefined)
    assert.equal((await ask(envd)).status, 200)
  })
})

describe('the connection limit', () => {
  it('is counted per sandbox, does not include the agent, and frees a slot when a client leaves', async () => {
    await using edge = await edgeFixture({ connectionLimit: 2 })
    const [busy, idle] = [edge.sandbox(), edge.sandbox()]
    const waiting: http.ServerResponse[] = []
    const slow = await edge.service((_, response) => {
      response.flushHeaders()
      waiting.push(response)
    })
    const quick = await edge.service((_, response) => response.end('quick'))
    busy.map(80, slow.port)
    busy.map(81, quick.port)
    busy.map(envd, quick.port)
    idle.map(80, quick.port)
    const unanswered = []
    for (let i = 0; i < 2; i++) {
      const request = http.get({ port: edge.port, headers: to(busy, 80), agent: false })
      const [response] = (await once(request, 'response')) as [http.IncomingMessage]
      unanswered.push({ request, response })
    }
    const full = await fetchOnce(edge.port, { headers: to(busy, 81) })
    assert.equal(full.status, 429)
    const message = 'The sandbox has too many concurrent incoming connections (limit: 2)'
    assert.deepEqual(JSON.parse(full.body), {
      sandboxId: busy.sandboxID,
      message,
      connectionLimit: 2,
      code: 429,
    })
    assert.equal((await fetchOnce(edge.port, { headers: to(busy, envd) })).body, 'quick')
    assert.equal((await fetchOnce(edge.port, { headers: to(idle, 80) })).body, 'quick')

    waiting[0]!.end()
    unanswered[0]!.response.resume()
    await once(unanswered[0]!.response, 'close')
    assert.equal((await fetchOnce(edge.port, { headers: to(busy, 81) })).body, 'quick')
    // The other client breaks its connection; the service sees that when the edge has closed its side.
    const gone = once(waiting[1]!, 'close')
    unanswered[1]!.response.on('error', () => {})
    unanswered[1]!.request.destroy()
    await gone
    assert.equal((await fetchOnce(edge.port, { headers: to(busy, 81) })).body, 'quick')
  })
})

describe('on a host shared with the API', () => {
  const shared = (sandbox: { sandboxID: string }, port: number) => ({
    Host: '127.0.0.1',
    'E2b-Sandbox-Id': sandbox.sandboxID,
    'E2b-Sandbox-Port': `${port}`,
  })

  it('no cookie passes either way, and pages get a separate origin', async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.service((request, response) => {
      response.writeHead(200, {
        'Set-Cookie': ['a=b'],
        'Clear-Site-Data': '"*"',
        'Strict-Transport-Security': 'max-age=9',
      })
      response.end(JSON.stringify(request.headers))
    })
    sandbox.map(80, service.port)
    const answer = await fetchOnce(edge.port, {
      headers: { ...shared(sandbox, 80), Cookie: 'session=secret' },
    })
    assert.doesNotMatch(answer.body, /secret/)
    for (const name of ['set-cookie', 'clear-site-data', 'strict-transport-security']) {
      assert.equal(answer.headers[name], undefined, name)
    }
    assert.equal(answer.headers['content-security-policy'], 'sandbox')
  })

  it('a browser’s preflight for the routing headers is allowed', async () => {
    await using edge = await edgeFixture()
    const wanted = 'authorization,e2b-sandbox-id,e2b-sandbox-port'
    const headers = { Host: 'localhost', Origin: 'http://a.test', 'Access-Control-Request-Headers': wanted }
    const answer = await fetchOnce(edge.port, { method: 'OPTIONS', headers })
    assert.equal(answer.status, 204)
    assert.equal(answer.headers['access-control-allow-origin'], '*')
    assert.equal(answer.headers['access-control-allow-headers'], wanted)
  })

  it('a signed file URL finds its sandbox, and a signature that matches none is rejected', async () => {
    await using edge = await edgeFixture()
    edge.sandbox()
    const sandbox = edge.sandbox({ sandboxID: 'isigned' })
    edge.routes.set({ ...edge.routes.get('isigned')!, agentToken: 'its own token' })
    const service = await edge.service((request, response) => response.end(`file ${request.url}`))
    sandbox.map(envd, service.port)
    const digest = createHash('sha256')
      .update('a.txt:read::its own token')
      .digest('base64')
      .replace(/=+$/, '')
    const path = `/files?path=a.txt&signature=${encodeURIComponent(`v1_${digest}`)}`
    const found = await fetchOnce(edge.port, { path, headers: { Host: 'localhost' } })
    assert.equal(found.body, `file ${path}`)
    assert.equal(found.headers['content-security-policy'], 'sandbox')
    const lost = await fetchOnce(edge.port, {
      path: path.replace('a.txt', 'b.txt'),
      headers: { Host: 'localhost' },
    })
    assert.equal(lost.status, 401)
    assert.match(JSON.parse(lost.body).message, /invalid signature/)
    assert.equal(JSON.parse(lost.body).code, 401)
    assert.doesNotMatch(lost.body, new RegExp(agentToken))
  })
})

it('a sandbox host may set cookies for itself only', async () => {
  await using edge = await edgeFixture()
  const sandbox = edge.sandbox()
  const own = to(sandbox, 80).Host
  const cookies = [
    'plain=1; Path=/',
    `own=1; domain=${own}`,
    `wide=1; Path=/; Domain=${domain}`,
    `dotted=1; DOMAIN = .${domain}`,
    `sibling=1; Domain=80-iother.${domain}`,
    `twice=1; Domain=${own}; Domain=${domain}`,
    'value=a; Comment=Domain',
  ]
  const service = await edge.service((request, response) => {
    response.writeHead(200, { 'Set-Cookie': cookies })
    response.end(request.headers.cookie)
  })
  sandbox.map(80, service.port)
  const { headers, body } = await fetchOnce(edge.port, { headers: { ...to(sandbox, 80), Cookie: 'mine=1' } })
  assert.equal(body, 'mine=1')
  const cookieNames = headers['set-cookie']?.map((cookie) => cookie.split('=')[0])
  assert.deepEqual(cookieNames, ['plain', 'own', 'value'])
})
