import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { fetchOver, issue, readAll, startWorld } from './gate-fixture.ts'
import { helloOf } from './hello-fixture.ts'
import { startSocks } from './socks-fixture.ts'

const within = { timeout: 300_000 }

describe('the egress proxy', within, () => {
  it('carries every connection, by name if the name decided', async () => {
    await using world = await startWorld()
    const to = await world.http(1, (request, response) => response.end(`there ${request.headers.host}`))
    const secure = await world.https(2, 'tls.example', (_, response) => response.end('secure'))
    const ssh = await world.raw(3, 22, (socket) => socket.end('SSH-2.0-there'))
    await using socks = await startSocks(world.address(80))
    socks.hosts.set('only-there.example', to).set('tls.example', secure)
    world.dns.zone.clear()
    world.admit({
      allowNames: ['only-there.example', 'tls.example'],
      allowAddresses: [ssh, to],
      proxy: socks.proxy,
    })
    const fake = world.address(9)
    assert.equal((await world.get(fake, { Host: 'only-there.example' })).body, 'there only-there.example')
    assert.equal(
      (await fetchOver(await world.tls(fake, 'tls.example'), { Host: 'tls.example' })).body,
      'secure',
    )
    assert.equal(await readAll(await world.connect({ address: ssh, port: 22 })), 'SSH-2.0-there')
    assert.equal((await world.get(to, { Host: 'x.example' })).body, 'there x.example')
    assert.deepEqual(socks.asked, ['only-there.example:80', 'tls.example:443', `${ssh}:22`, `${to}:80`])
    assert.equal((await world.get(fake, { Host: 'x.example' })).status, 403)
    assert.equal(socks.asked.length, 4)
  })

  it('gets names if nothing is denied, and addresses if something is', async () => {
    await using world = await startWorld()
    const to = await world.http(1, (_, response) => response.end('there'))
    await using socks = await startSocks(world.address(80))
    socks.hosts.set('a.example', to)
    const { proxy } = socks
    world.admit({ internet: true, proxy })
    assert.equal((await world.get(to, { Host: 'a.example' })).body, 'there')
    world.admit({ internet: true, denyAddresses: [world.address(7)], proxy })
    assert.equal((await world.get(to, { Host: 'a.example' })).body, 'there')
    assert.deepEqual(socks.asked, ['a.example:80', `${to}:80`])
  })

  it('gets the user name and password', async () => {
    await using world = await startWorld()
    const to = await world.http(1, (_, response) => response.end('there'))
    await using socks = await startSocks(world.address(80))
    socks.login = { username: 'me', password: 'pässword' }
    const ask = async (login: object) => {
      world.admit({ internet: true, proxy: { ...socks.proxy, ...login } })
      return await world.get(to, { Host: to })
    }
    assert.equal((await ask(socks.login)).body, 'there')
    assert.match((await ask({ username: 'me', password: 'no' })).body, /Authentication failed/)
    const without = await ask({})
    assert.equal(without.status, 502)
    assert.match(without.body, /no acceptable authentication|authentication type/i)
  })

  it('is reached over TLS, with its certificate checked', async () => {
    await using world = await startWorld({ limits: { dialMs: 5000 } })
    const to = await world.http(1, (_, response) => response.end('there'))
    await using socks = await startSocks(world.address(80), issue(world.internetAuthority, 'proxy.example'))
    const caCert = world.internetAuthority.certificate
    const ask = async (tls: object, host = socks.proxy.host) => {
      world.admit({ internet: true, proxy: { ...socks.proxy, host, tls } })
      return await world.get(to, { Host: to })
    }
    assert.equal((await ask({ serverName: 'proxy.example', caCert })).body, 'there')
    world.dns.zone.set('proxy.example', [world.address(80)])
    assert.equal((await ask({ caCert }, 'proxy.example')).body, 'there')
    const asked = socks.asked.length
    for (const tls of [
      { serverName: 'other.example', caCert },
      { caCert },
      { serverName: 'proxy.example' },
    ]) {
      const { status, body } = await ask(tls)
      assert.equal(status, 502)
      assert.match(body, /the egress proxy did not connect/)
    }
    world.admit({ internet: true, proxy: socks.proxy })
    assert.equal((await world.get(to, { Host: to })).status, 502)
    assert.equal(socks.asked.length, asked, 'nothing was said in the clear or to a stranger')
  })

  it('lets nothing through when it is down', async () => {
    await using world = await startWorld({ limits: { dialMs: 3000 } })
    let reached = 0
    const to = await world.http(1, (_, response) => {
      reached++
      response.end()
    })
    await using socks = await startSocks(world.address(80))
    const refusals: [Buffer, RegExp][] = [
      [Buffer.from([5, 2, 0, 1, 0, 0, 0, 0, 0, 0]), /NotAllowed/],
      [Buffer.from([5, 99, 0, 1, 0, 0, 0, 0, 0, 0]), /rejected/],
      [Buffer.from([5, 0, 0, 7, 0, 0, 0, 0, 0, 0]), /malformed/],
      [Buffer.from([5, 0, 0, 3]), /Socket closed/],
      [Buffer.alloc(0), /Socket closed/],
    ]
    world.admit({ internet: true, proxy: socks.proxy })
    for (const [answer, text] of refusals) {
      socks.answer = answer
      const { status, body } = await world.get(to, { Host: to })
      assert.equal(status, 502)
      assert.match(body, text)
    }
    const deaf = await world.raw(81, 1080, () => {})
    for (const host of [world.address(9), 'gone.example', deaf]) {
      world.admit({ internet: true, proxy: { host, port: 1080 } })
      assert.equal((await world.get(to, { Host: to })).status, 502, host)
    }
    world.closed.add(world.address(80))
    world.admit({ internet: true, proxy: { ...socks.proxy, username: 'x' } })
    assert.equal((await world.get(to, { Host: to })).status, 403)
    const socket = await world.connect({ address: to, port: 443 })
    socket.write(helloOf({ serverName: 'x.example' }))
    assert.equal(await readAll(socket), '')
    assert.equal(reached, 0)
  })
})
