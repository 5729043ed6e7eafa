import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { describe, it } from 'node:test'

import type { Log } from '../lib/log.ts'
import { fetchOver, readAll, startWorld, type World } from './gate-fixture.ts'

const within = { timeout: 300_000 }
const secret = (name: string) => `\${e2b.secrets.${name}}`

/** TLS as a sandbox sees it that trusts the machine's authority alone. */
async function intercepted(world: World, to: string, name: string, options: object = {}) {
  return await world.tls(to, name, { ca: [await world.authority.certificate()], ...options })
}

const rule = (name: string, headers: Record<string, string>) => ({ name, headers, onPlainHttp: true })

describe('header rules', within, () => {
  it('add headers with secrets to requests inside TLS, and the sandbox never sees them', async () => {
    await using world = await startWorld()
    world.secrets.set('team/key', 's3same').set('team/ünique', 'ключ')
    let seen: (string | undefined)[] = []
    const to = await world.https(1, 'api.example', (request, response) => {
      const raw = request.rawHeaders.map((text) => text.toLowerCase())
      seen = [request.headers.authorization, request.headers['x-other'] as string]
      const count = (name: string) => raw.filter((one) => one === name).length
      response.end(`${count('authorization')} ${count('__proto__')} ${request.method} ${request.url}`)
    })
    const headersOfRule = {
      Authorization: `Bearer ${secret('key')}`,
      'X-Other': secret('ünique'),
      ['__proto__']: 'a name like any other',
    }
    world.admit({ allowNames: ['api.example'], headerRules: [rule('api.example', headersOfRule)] })
    const socket = await intercepted(world, to, 'api.example')
    const headers = { Host: 'api.example', Authorization: 'Bearer stolen' }
    const answer = await fetchOver(socket, headers, '/v1?x', { method: 'POST', body: 'hello' })
    assert.equal(answer.body, '1 1 POST /v1?x')
    assert.equal(seen[0], 'Bearer s3same')
    assert.equal(Buffer.from(seen[1]!, 'latin1').toString(), 'ключ')
  })

  it('use the current value of the secret', async () => {
    await using world = await startWorld()
    const to = await world.https(1, 'api.example', (request, response) =>
      response.end(request.headers['x-key']),
    )
    world.admit({ allowNames: ['*'], headerRules: [rule('api.example', { 'X-Key': secret('key') })] })
    for (const value of ['one', 'two']) {
      world.secrets.set('team/key', value)
      const socket = await intercepted(world, to, 'api.example')
      assert.equal((await fetchOver(socket, { Host: 'api.example' })).body, value)
    }
  })

  it('apply to TLS only unless a rule says otherwise, and do not reject plain HTTP', async () => {
    await using world = await startWorld()
    world.secrets.set('team/key', 's3same')
    const show = (request: IncomingMessage, response: ServerResponse) => {
      response.end(`${request.headers['x-key']}`)
    }
    const secure = await world.https(1, 'api.example', show)
    const plain = await world.http(1, show)
    const headers = { 'X-Key': secret('key') }
    const ask = async () => [
      (await world.get(plain, { Host: 'api.example', 'X-Key': 'mine' })).body,
      (await fetchOver(await intercepted(world, secure, 'api.example'), { Host: 'api.example' })).body,
    ]
    world.admit({ allowNames: ['*'], headerRules: [{ name: 'api.example', headers }] })
    assert.deepEqual(await ask(), ['mine', 's3same'])
    world.admit({ allowNames: ['*'], headerRules: [{ name: 'api.example', headers, onPlainHttp: true }] })
    assert.deepEqual(await ask(), ['s3same', 's3same'])
  })

  it('of a name with a port apply to connections to that port', async () => {
    await using world = await startWorld()
    const show = (request: IncomingMessage, response: ServerResponse) => {
      response.end(`${request.headers['x-key']}`)
    }
    const to = await world.http(1, show, 'api.example')
    const other = createServer(show)
    await world.raw(1, 8443, (socket) => other.emit('connection', socket))
    const rules = [
      { ...rule('*', { 'X-Key': 'any' }), port: 8443 },
      { ...rule('api.example', { 'X-Key': 'exact' }), port: 8443 },
    ]
    world.admit({ allowNames: ['*'], headerRules: rules })
    const byPort = async (port: number) => {
      const Host = port === 80 ? 'api.example' : `api.example:${port}`
      return (await fetchOver(await world.connect({ address: to, port }), { Host })).body
    }
    assert.deepEqual([await byPort(8443), await byPort(80)], ['exact', 'undefined'])
    world.admit({ allowNames: ['*'], headerRules: [rule('api.example', { 'X-Key': 'all' }), ...rules] })
    assert.deepEqual([await byPort(8443), await byPort(80)], ['exact', 'all'])
  })

  it('reject methods whose answer would show the headers to the sandbox', async () => {
    await using world = await startWorld()
    let reached = 0
    const reflect = (request: IncomingMessage, response: ServerResponse) => {
      reached++
      response.end(request.rawHeaders.join())
    }
    const to = await world.https(1, 'api.example', reflect)
    const plain = await world.http(1, reflect)
    world.admit({ allowNames: ['*'], headerRules: [rule('api.example', { 'X-Key': 'value' })] })
    for (const open of [
      () => intercepted(world, to, 'api.example'),
      () => world.connect({ address: plain, port: 80 }),
    ]) {
      const answer = await fetchOver(await open(), { Host: 'api.example' }, '/', { method: 'TRACE' })
      assert.equal(answer.status, 405)
      assert.match(answer.body, /TRACE is not allowed to a host with a header rule/)
      const socket = await open()
      socket.write('TRACK / HTTP/1.1\r\nHost: api.example\r\n\r\n')
      assert.match(await readAll(socket), /^HTTP\/1\.1 40[05] /)
    }
    assert.equal(reached, 0)
    world.dns.zone.set('other.example', [plain])
    const other = await world.connect({ address: plain, port: 80 })
    assert.equal((await fetchOver(other, { Host: 'other.example' }, '/', { method: 'TRACE' })).status, 200)
  })

  it('apply to plain HTTP if they say so, and the most exact rule wins', async () => {
    await using world = await startWorld()
    const to = await world.http(
      1,
      (request, response) => response.end(`${request.headers['x-rule']}`),
      'a.x.example',
    )
    world.dns.zone.set('b.x.example', [to]).set('y.example', [to])
    world.admit({
      allowNames: ['*'],
      headerRules: [
        rule('*', { 'X-Rule': 'any' }),
        rule('*.x.example', { 'X-Rule': 'below' }),
        rule('a.x.example', { 'X-Rule': 'exact' }),
      ],
    })
    const byHost = async (Host: string) => (await world.get(to, { Host, 'x-rule': 'mine' })).body
    assert.equal(await byHost('a.x.example'), 'exact')
    assert.equal(await byHost('b.x.example'), 'below')
    assert.equal(await byHost('Y.example.'), 'any')
  })

  it('reject the request if a placeholder cannot be filled, and send nothing', async () => {
    await using world = await startWorld()
    let reached = 0
    const to = await world.http(
      1,
      (_, response) => {
        reached++
        response.end()
      },
      'api.example',
    )
    const cases = {
      [secret('missing')]: /there is no secret missing; create it/,
      [`a ${secret('broken')}`]: /the secret broken does not fit in a header/,
      '${e2b.identity.tokens.me}': /does not know the placeholder \$\{e2b\.identity\.tokens\.me\}/,
      '${e2b.other}': /does not know the placeholder/,
      '${e2b.secrets.key': /a placeholder without an end/,
      '${e2b.secrets.{key}}': /a placeholder without an end/,
    }
    world.secrets.set('team/key', 'value').set('team/broken', 'a\r\nX-Evil: b').set('other/missing', 'theirs')
    for (const [value, text] of Object.entries(cases)) {
      world.admit({ allowNames: ['*'], headerRules: [rule('api.example', { 'X-Key': value })] })
      const { status, body } = await world.get(to, { Host: 'api.example' })
      assert.equal(status, 502, value)
      assert.match(body, text)
      assert.doesNotMatch(body, /X-Evil|theirs/)
    }
    assert.equal(reached, 0)
  })

  it('leave other texts in braces and other placeholders unchanged', async () => {
    await using world = await startWorld()
    const to = await world.http(1, (request, response) => response.end(request.headers['x-a']), 'api.example')
    const text = `$\{HOME} {e2b.x} $1 $&`
    world.admit({ allowNames: ['*'], headerRules: [rule('api.example', { 'X-A': text })] })
    assert.equal((await world.get(to, { Host: 'api.example' })).body, text)
  })

  it('cannot change the framing or the target of a message', async () => {
    await using world = await startWorld()
    const to = await world.http(
      1,
      (request, response) => response.end(`${request.headers.host} ${request.headers['transfer-encoding']}`),
      'api.example',
    )
    const headers = {
      Host: 'evil.example',
      'Transfer-Encoding': 'chunked',
      'Content-Length': '99',
      Upgrade: 'x',
    }
    world.admit({ allowNames: ['*'], headerRules: [rule('api.example', headers)] })
    assert.equal((await world.get(to, { Host: 'api.example' })).body, 'api.example undefined')
  })

  it('allow no traffic by themselves, and apply only to the real host of the name', async () => {
    await using world = await startWorld()
    const real = await world.http(1, (_, response) => response.end('real'), 'api.example')
    const evil = await world.http(2, (request, response) => response.end(`evil ${request.headers['x-key']}`))
    const headerRules = [rule('api.example', { 'X-Key': 'value' })]
    world.admit({ headerRules })
    assert.match(
      (await world.get(real, { Host: 'api.example' })).body,
      /a header rule alone allows no traffic/,
    )
    // The address that the sandbox chose is allowed, and the one of the name is not: the headers are not sent.
    world.admit({ headerRules, allowAddresses: [evil] })
    assert.equal((await world.get(evil, { Host: 'api.example' })).status, 403)
    world.admit({ headerRules, internet: true })
    assert.equal((await world.get(evil, { Host: 'api.example' })).body, 'real')
    world.admit({ headerRules, internet: true, denyAddresses: [real] })
    assert.equal((await world.get(evil, { Host: 'api.example' })).status, 403)
  })

  it('apply only to a host that proves its name', async () => {
    await using world = await startWorld()
    let reached = 0
    const to = await world.https(1, 'other.example', (_, response) => {
      reached++
      response.end()
    })
    world.dns.zone.set('api.example', [to])
    world.admit({ allowNames: ['*'], headerRules: [rule('api.example', { 'X-Key': 'value' })] })
    const { status, body } = await fetchOver(await intercepted(world, to, 'api.example'), {
      Host: 'api.example',
    })
    assert.equal(status, 502)
    assert.match(body, /api\.example cannot be reached: TLS failed/)
    assert.equal(reached, 0)
  })

  it('reject a request for another host on the same connection', async () => {
    await using world = await startWorld()
    const to = await world.https(1, 'api.example', (_, response) => response.end('reached'))
    await world.https(2, 'other.example', (_, response) => response.end('other'))
    world.admit({ allowNames: ['*'], headerRules: [rule('api.example', {})] })
    for (const Host of ['other.example', to, 'api.example.evil.example']) {
      const { status, body } = await fetchOver(await intercepted(world, to, 'api.example'), { Host })
      assert.equal(status, 421)
      assert.match(body, /made for api\.example/)
    }
  })

  it('leave TLS to names without a rule encrypted', async () => {
    await using world = await startWorld()
    const to = await world.https(1, 'free.example', (_, response) => response.end('free'))
    world.admit({ allowNames: ['*'], headerRules: [rule('api.example', { 'X-Key': 'value' })] })
    const socket = await world.tls(to, 'free.example')
    assert.equal((await fetchOver(socket, { Host: 'free.example' })).body, 'free')
  })

  it('speak HTTP/1.1 to clients that offer HTTP/2 as well, and to hosts', async () => {
    await using world = await startWorld()
    const to = await world.https(1, 'api.example', (request, response) => response.end(request.httpVersion))
    world.admit({ allowNames: ['*'], headerRules: [rule('api.example', {})] })
    const socket = await intercepted(world, to, 'api.example', { ALPNProtocols: ['h2', 'http/1.1'] })
    assert.equal(socket.alpnProtocol, 'http/1.1')
    assert.equal((await fetchOver(socket, { Host: 'api.example' })).body, '1.1')
    await assert.rejects(
      intercepted(world, to, 'api.example', { ALPNProtocols: ['h2'] }),
      /application protocol/,
    )
  })

  it('pass on WebSocket requests inside TLS, with their headers', async () => {
    await using world = await startWorld()
    const to = await world.https(1, 'api.example', ({ headers }, response) => {
      response.end(`${headers.upgrade} ${headers.connection} ${headers['x-key']}`)
    })
    world.admit({ allowNames: ['*'], headerRules: [rule('api.example', { 'X-Key': 'value' })] })
    const socket = await intercepted(world, to, 'api.example')
    socket.write('GET / HTTP/1.1\r\nHost: api.example\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\n')
    assert.match(await readAll(socket), /WebSocket Upgrade value/)
  })

  it('never write a value to the log', async () => {
    const lines: string[] = []
    const note = (values: object, message: string) => {
      const causes = Object.values(values).map((value) => (value instanceof Error ? value.stack : ''))
      lines.push(JSON.stringify(values) + message + causes)
    }
    const log: Log = { debug: note, info: note, warn: note, error: note }
    await using world = await startWorld({ log })
    world.secrets.set('team/key', 's3same')
    world.dns.zone.set('api.example', [world.address(9)])
    world.admit({ allowNames: ['*'], headerRules: [rule('api.example', { 'X-Key': secret('key') })] })
    assert.equal((await world.get(world.address(9), { Host: 'api.example' })).status, 502)
    assert.ok(lines.length > 0)
    assert.doesNotMatch(lines.join('\n'), /s3same/)
  })
})
