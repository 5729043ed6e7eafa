import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { describe, it } from 'node:test'
import { fetchOver, readAll, startWorld, type World } from './gate-fixture.ts'

const within = { timeout: 300_000 }

/** A host that says who it is and whom it was asked for. */
const saying = (who: string) => (request: IncomingMessage, response: ServerResponse) =>
  response.end(`${who} ${request.headers.host} ${request.url}`)

async function sendRaw(world: World, to: string, text: string): Promise<string> {
  const socket = await world.connect({ address: to, port: 80 })
  socket.end(text, 'latin1')
  return await readAll(socket)
}

describe('plain HTTP through the gate', within, () => {
  it('goes to the host that it names, if the name is allowed', async () => {
    await using world = await startWorld()
    const to = await world.http(1, saying('one'), 'good.example')
    world.dns.zone.set('a.sub.example', [to])
    world.dns.zone.set('xn--bcher-kva.example', [to])
    world.admit({ allowNames: ['good.example', '*.sub.example', 'xn--bcher-kva.example'] })
    for (const [host, seen] of [
      ['good.example', 'good.example'],
      ['GOOD.Example', 'good.example'],
      ['good.example.', 'good.example'],
      ['good.example:80', 'good.example:80'],
      ['good.example:', 'good.example'],
      ['a.sub.example', 'a.sub.example'],
      [Buffer.from('bücher.example').toString('latin1'), 'xn--bcher-kva.example'],
      ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
    ] as const) {
      const { status, body } = await world.get(to, { Host: host }, '/path?x=1')
      assert.deepEqual([status, body], [200, `one ${seen} /path?x=1`], host)
    }
  })

  it('rejects names that are not allowed, with the remedy', async () => {
    await using world = await startWorld()
    const to = await world.http(1, saying('one'), 'good.example')
    world.admit({ allowNames: ['good.example', '*.sub.example'] })
    for (const host of [
      'bad.example',
      'x.good.example',
      'good.example.evil.example',
      'evilgood.example',
      'sub.example',
      'xsub.example',
    ]) {
      const { status, body } = await world.get(to, { Host: host })
      assert.equal(status, 403, host)
      assert.match(body, /does not allow .*allowOut/)
    }
    for (const address of [to, `${to}:80`]) {
      await assert.rejects(world.get(to, { Host: address }), /ECONNRESET|socket hang up/)
    }
    assert.deepEqual(world.dns.asked, [], 'nobody was asked about them')
  })

  it('rejects malformed and ambiguous requests', async () => {
    await using world = await startWorld()
    let reached = 0
    const to = await world.http(
      1,
      (_, response) => {
        reached++
        response.end('reached')
      },
      'good.example',
    )
    world.dns.zone.set('other.example', [to])
    world.admit({ allowNames: ['good.example', 'other.example'] })
    const cases = {
      'two hosts': 'GET / HTTP/1.1\r\nHost: good.example\r\nHost: other.example\r\n\r\n',
      'the same host twice': 'GET / HTTP/1.1\r\nHost: good.example\r\nHost: good.example\r\n\r\n',
      'no host': 'GET / HTTP/1.1\r\n\r\n',
      'no host in HTTP/1.0': 'GET / HTTP/1.0\r\n\r\n',
      'empty host': 'GET / HTTP/1.1\r\nHost:\r\n\r\n',
      'NUL in the host': 'GET / HTTP/1.1\r\nHost: good.example\0.evil.example\r\n\r\n',
      'space in the host': 'GET / HTTP/1.1\r\nHost: good.example evil.example\r\n\r\n',
      'user in the host': 'GET / HTTP/1.1\r\nHost: evil@good.example\r\n\r\n',
      'slash in the host': 'GET / HTTP/1.1\r\nHost: evil.example/good.example\r\n\r\n',
      'escape in the host': 'GET / HTTP/1.1\r\nHost: g%6fod.example\r\n\r\n',
      'empty label': 'GET / HTTP/1.1\r\nHost: good..example\r\n\r\n',
      'two final dots': 'GET / HTTP/1.1\r\nHost: good.example..\r\n\r\n',
      'bad port': 'GET / HTTP/1.1\r\nHost: good.example:80x\r\n\r\n',
      'list of hosts': 'GET / HTTP/1.1\r\nHost: good.example, other.example\r\n\r\n',
      'number for an address': 'GET / HTTP/1.1\r\nHost: 2130706433\r\n\r\n',
      'target and host differ': 'GET http://other.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n',
      'target of another scheme': 'GET https://good.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n',
      'target that is none': 'GET good.example HTTP/1.1\r\nHost: good.example\r\n\r\n',
      'two lengths':
        'POST / HTTP/1.1\r\nHost: good.example\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
      'length and coding':
        'POST / HTTP/1.1\r\nHost: good.example\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      'folded header': 'GET / HTTP/1.1\r\nHost: good.example\r\nX: a\r\n b\r\nHost : other.example\r\n\r\n',
      'bare line feed in a header': 'GET / HTTP/1.1\r\nHost: good.example\r\nX: a\rHost: x\r\n\r\n',
      'not HTTP': 'hello there\r\n\r\n',
      'HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    }
    for (const [title, text] of Object.entries(cases)) {
      const answer = await sendRaw(world, to, text)
      assert.match(
        answer,
        /^HTTP\/1\.1 400 [\s\S]*\r\n\r\n(?:The request|The gate|The egress policy)[\s\S]+$/,
        title,
      )
    }
    assert.equal(reached, 0)
  })

  it('accepts an absolute target that agrees with Host', async () => {
    await using world = await startWorld()
    const to = await world.http(1, saying('one'), 'good.example')
    world.admit({ allowNames: ['good.example'] })
    const headers = 'Host: good.example\r\nConnection: close\r\n\r\n'
    const answer = await sendRaw(world, to, `GET http://GOOD.example?a#b HTTP/1.1\r\n${headers}`)
    assert.match(answer, /one good\.example \/\?a$/)
    assert.match(
      await sendRaw(world, to, `GET http://bad.example/ HTTP/1.1\r\nHost: bad.example\r\n\r\n`),
      /403/,
    )
  })

  it('refuses CONNECT', async () => {
    await using world = await startWorld()
    const to = await world.http(1, saying('one'), 'good.example')
    world.admit({ allowNames: ['*'] })
    const answer = await sendRaw(world, to, 'CONNECT good.example:443 HTTP/1.1\r\nHost: good.example\r\n\r\n')
    assert.match(answer, /^HTTP\/1\.1 403 .*CONNECT is not supported/s)
  })

  it('checks every request of a connection, and sends each to its own host', async () => {
    await using world = await startWorld()
    const to = await world.http(1, saying('one'), 'one.example')
    await world.http(2, saying('two'), 'two.example')
    world.admit({ allowNames: ['one.example', 'two.example'] })
    const socket = await world.connect({ address: to, port: 80 })
    const received = readAll(socket)
    for (const name of ['one', 'two', 'one', 'bad']) {
      socket.write(`GET /${name} HTTP/1.1\r\nHost: ${name}.example\r\n\r\n`)
    }
    const text = await received
    assert.deepEqual(text.match(/(?:one|two) \S+ \/(?:one|two)/g), [
      'one one.example /one',
      'two two.example /two',
      'one one.example /one',
    ])
    assert.match(text, /HTTP\/1\.1 403 Forbidden[\s\S]*bad\.example/)
  })

  it('keeps the connection to a host for the next request', async () => {
    await using world = await startWorld()
    const ports = new Set<number | undefined>()
    const to = await world.http(
      1,
      (request, response) => {
        ports.add(request.socket.remotePort)
        response.end('ok')
      },
      'one.example',
    )
    world.admit({ allowNames: ['one.example'] })
    const socket = await world.connect({ address: to, port: 80 })
    for (let turn = 0; turn < 3; turn++) {
      socket.write('GET / HTTP/1.1\r\nHost: one.example\r\n\r\n')
      const [chunk] = (await once(socket, 'data')) as [Buffer]
      assert.match(chunk.toString(), /200 OK/)
    }
    assert.equal(ports.size, 1)
  })

  it('never dials the address that the sandbox chose for an allowed name', async () => {
    await using world = await startWorld()
    await world.http(1, saying('real'), 'good.example')
    const evil = await world.http(2, saying('evil'))
    world.admit({ allowNames: ['good.example'] })
    assert.equal((await world.get(evil, { Host: 'good.example' })).body, 'real good.example /')
  })

  it('falls back to the address when no name is allowed', async () => {
    await using world = await startWorld()
    const to = await world.http(1, saying('one'))
    const denied = await world.http(2, saying('two'))
    world.admit({
      internet: true,
      denyAddresses: ['0.0.0.0/0'],
      allowAddresses: [`${to}/32`],
      allowNames: ['x.example'],
    })
    assert.equal((await world.get(to, { Host: 'whatever.example' })).body, 'one whatever.example /')
    assert.equal((await world.get(denied, { Host: 'whatever.example' })).status, 403)
    world.admit({
      internet: true,
      denyAddresses: [denied],
      headerRules: [{ name: 'y.example', headers: {} }],
    })
    assert.equal((await world.get(to, { Host: 'whatever.example' })).status, 200)
    assert.equal((await world.get(denied, { Host: 'whatever.example' })).status, 403)
  })

  it('rejects names that resolve to closed addresses, at each new connection (DNS rebinding)', async () => {
    await using world = await startWorld()
    const to = await world.http(1, saying('one'), 'good.example')
    const inside = await world.http(2, saying('inside'))
    world.closed.add(inside)
    world.admit({ allowNames: ['*'], allowAddresses: ['0.0.0.0/0'] })
    assert.equal((await world.get(to, { Host: 'good.example' })).status, 200)
    world.dns.zone.set('good.example', [inside])
    world.admit({ allowNames: ['*'] })
    const { status, body } = await world.get(to, { Host: 'good.example' })
    assert.equal(status, 403)
    assert.match(body, /closed to all sandboxes/)
    await assert.rejects(world.get(inside, { Host: inside }), /ECONNRESET|socket hang up/)
  })

  it('follows aliases, and reports a name without an IPv4 address', async () => {
    await using world = await startWorld()
    const to = await world.http(1, saying('one'), 'far.example')
    world.dns.zone.set('alias.example', ['cname:other.example'])
    world.dns.zone.set('other.example', ['cname:far.example'])
    world.dns.zone.set('six.example', ['aaaa:'])
    world.admit({ allowNames: ['alias.example', 'six.example', 'gone.example'] })
    assert.equal((await world.get(to, { Host: 'alias.example' })).body, 'one alias.example /')
    for (const host of ['six.example', 'gone.example']) {
      const { status, body } = await world.get(to, { Host: host })
      assert.equal(status, 502)
      assert.match(body, /could not be resolved to an IPv4 address/)
    }
  })

  it('passes WebSockets, and checks them like requests', async () => {
    await using world = await startWorld()
    const to = await world.raw(1, 80, (socket) => {
      socket.once('data', (head) => {
        assert.match(head.toString(), /Host: good\.example\r\n[\s\S]*Upgrade: websocket/)
        socket.write(
          'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-A: b\r\n\r\nhi',
        )
        socket.pipe(socket)
      })
    })
    world.dns.zone.set('good.example', [to])
    world.admit({ allowNames: ['good.example'] })
    const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
    const socket = await world.connect({ address: to, port: 80 })
    socket.write(`GET / HTTP/1.1\r\nHost: good.example\r\n${upgrade}ping`)
    let text = ''
    for await (const chunk of socket) {
      text += chunk
      if (text.endsWith('ping')) break
    }
    assert.match(text, /^HTTP\/1\.1 101 [\s\S]*X-A: b[\s\S]*\r\n\r\nhiping$/)
    assert.match(
      await sendRaw(world, to, `GET / HTTP/1.1\r\nHost: bad.example\r\n${upgrade}`),
      /^HTTP\/1\.1 403/,
    )
  })

  it('ignores offers of other protocols', async () => {
    await using world = await startWorld()
    const to = await world.http(
      1,
      (request, response) => response.end(`upgrade ${request.headers.upgrade}`),
      'good.example',
    )
    world.admit({ allowNames: ['good.example'] })
    const offer =
      'Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n'
    const answer = await sendRaw(world, to, `GET / HTTP/1.1\r\nHost: good.example\r\n${offer}`)
    assert.match(answer, /upgrade undefined/)
  })

  it('carries bodies both ways, of known length and not, without piling them up', async () => {
    await using world = await startWorld()
    const to = await world.http(
      1,
      async (request, response) => {
        let bytes = 0
        for await (const chunk of request) bytes += chunk.length
        response.setHeader('X-Bytes', bytes)
        for (let turn = 0; turn < 64; turn++) {
          if (!response.write(Buffer.alloc(64 * 1024, 'x'))) await once(response, 'drain')
        }
        response.end()
      },
      'good.example',
    )
    world.admit({ allowNames: ['good.example'] })
    const headers = { Host: 'good.example', Expect: '100-continue' }
    const body = 'b'.repeat(3 * 1024 * 1024)
    const socket = await world.connect({ address: to, port: 80 })
    const answer = await fetchOver(socket, headers, '/', { method: 'POST', body })
    assert.deepEqual([answer.headers['x-bytes'], answer.body.length], [`${body.length}`, 4 * 1024 * 1024])
  })

  it('answers 502 when the host is down, and breaks off when it breaks off', async () => {
    await using world = await startWorld()
    const to = await world.raw(1, 80, (socket) => {
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf')
        setTimeout(() => socket.resetAndDestroy(), 50)
      })
    })
    world.dns.zone.set('half.example', [to]).set('down.example', [world.address(9)])
    world.admit({ allowNames: ['half.example', 'down.example'] })
    const down = await world.get(to, { Host: 'down.example' })
    assert.equal(down.status, 502)
    assert.match(down.body, /down\.example:80 cannot be reached/)
    await assert.rejects(world.get(to, { Host: 'half.example' }), /aborted|ECONNRESET|hang up/)
  })

  it('rejects heads that are too large', async () => {
    await using world = await startWorld()
    const to = await world.http(1, saying('one'), 'good.example')
    world.admit({ allowNames: ['good.example'] })
    const answer = await sendRaw(
      world,
      to,
      `GET / HTTP/1.1\r\nHost: good.example\r\nX: ${'y'.repeat(70_000)}\r\n\r\n`,
    )
    assert.match(answer, /^HTTP\/1\.1 431 /)
  })

  it('cuts a connection that pipelines hundreds of requests', async () => {
    await using world = await startWorld()
    let open = 0
    const to = await world.http(1, () => void open++, 'good.example')
    world.admit({ allowNames: ['good.example'] })
    const socket: Socket = await world.connect({ address: to, port: 80 })
    const closed = once(socket, 'close').catch(() => {})
    socket.on('data', () => {})
    socket.write('GET / HTTP/1.1\r\nHost: good.example\r\n\r\n'.repeat(500))
    await closed
    assert.ok(open <= 1)
  })
})
