import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, it } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { fetchOver, readAll, startWorld } from './gate-fixture.ts'
import { helloOf } from './hello-fixture.ts'

const within = { timeout: 300_000 }
const alert = (code: number) => Buffer.from([21, 3, 3, 0, 2, 2, code]).toString('latin1')
const accessDenied = alert(49)
const unrecognized = alert(112)
const denied = /access denied|ALERT_ACCESS_DENIED/i

describe('TLS through the gate', within, () => {
  it('goes to the host that it names, end to end, if the name is allowed', async () => {
    await using world = await startWorld()
    const to = await world.https(1, 'good.example', (_, response) => response.end('good'))
    world.dns.zone.set('a.good.example', [to])
    world.admit({ allowNames: ['good.example', '*.good.example'] })
    // The host's own certificate is what the sandbox sees.
    for (const name of ['good.example', 'GOOD.example']) {
      const socket = await world.tls(to, name)
      assert.equal((await fetchOver(socket, { Host: 'good.example' })).body, 'good')
    }
    const below = await world.tls(to, 'a.good.example', { rejectUnauthorized: false })
    assert.equal((await fetchOver(below, { Host: 'a.good.example' })).body, 'good')
    for (const name of ['bad.example', 'xgood.example', 'good.example.evil.example']) {
      await assert.rejects(world.tls(to, name), denied, name)
    }
  })

  it('with a forged name goes only to the real host of that name', async () => {
    await using world = await startWorld()
    await world.https(1, 'good.example', (_, response) => response.end('real'))
    const evil = await world.https(2, 'evil.example', (_, response) => response.end('evil'))
    world.admit({ allowNames: ['good.example'] })
    const socket = await world.tls(evil, 'good.example', { rejectUnauthorized: false })
    assert.equal((await fetchOver(socket, { Host: 'evil.example' })).body, 'real')
  })

  it('is rejected without a name, unless its address is allowed', async () => {
    await using world = await startWorld()
    const to = await world.https(1, 'good.example', (_, response) => response.end('good'))
    world.admit({ allowNames: ['*'] })
    const nameless = { rejectUnauthorized: false }
    await assert.rejects(world.tls(to, undefined, nameless), /unrecognized name/i)
    await assert.rejects(world.tls(to, '', nameless), /unrecognized name/i)
    world.admit({ allowNames: ['*'], allowAddresses: [to] })
    assert.equal((await fetchOver(await world.tls(to, undefined, nameless), { Host: 'x' })).body, 'good')
  })

  it('is rejected for names with a NUL, in Unicode, or that are addresses', async () => {
    await using world = await startWorld()
    const to = await world.https(1, 'good.example', (_, response) => response.end('good'))
    world.admit({ allowNames: ['*', 'good.example', 'xn--bcher-kva.example'] })
    for (const name of [
      'good.example\0.evil.example',
      'b\xfccher.example',
      to,
      '127.1',
      '0x7f.0.0.1',
      'a b',
      '.',
    ]) {
      const socket = await world.connect({ address: to, port: 443 })
      socket.write(helloOf({ serverName: name }))
      assert.ok([unrecognized, accessDenied].includes(await readAll(socket)), name)
    }
    assert.deepEqual(world.dns.asked, [])
  })

  it('is rejected if a hello may hide its true name, and names decide', async () => {
    await using world = await startWorld()
    const to = await world.raw(1, 443, (socket) => socket.end('reached'))
    world.dns.zone.set('good.example', [to])
    const send = async () => {
      const socket = await world.connect({ address: to, port: 443 })
      socket.write(helloOf({ serverName: 'good.example', ech: true }))
      return await readAll(socket)
    }
    world.admit({ allowNames: ['good.example'] })
    assert.equal(await send(), accessDenied)
    world.admit({ allowNames: ['good.example'], allowAddresses: [to] })
    assert.equal(await send(), 'reached')
    world.admit({ internet: true, headerRules: [{ name: 'x.example', headers: {} }] })
    assert.equal(await send(), 'reached')
  })

  it('may have a hello in pieces of one byte and in many records', async () => {
    await using world = await startWorld()
    const to = await world.raw(1, 443, (socket) => {
      socket.once('data', (chunk) => socket.end(`${chunk.length > 0}`))
    })
    world.dns.zone.set('good.example', [to])
    world.admit({ allowNames: ['good.example'] })
    const hello = helloOf({ serverName: 'good.example', recordBytes: 20 })
    const socket = await world.connect({ address: to, port: 443 })
    socket.setNoDelay(true)
    const received = readAll(socket)
    for (const byte of hello) {
      socket.write(Buffer.from([byte]))
      await new Promise(setImmediate)
    }
    assert.equal(await received, 'true')
  })

  it('gets no answer for other protocols, unless its address is allowed', async () => {
    await using world = await startWorld()
    const to = await world.raw(1, 443, (socket) => socket.end('SSH-2.0-there'))
    world.admit({ allowNames: ['*'] })
    const speak = async () => {
      const socket = await world.connect({ address: to, port: 443 })
      socket.write('SSH-2.0-here\r\n')
      return await readAll(socket)
    }
    assert.equal(await speak(), '')
    world.admit({ allowNames: ['*'], allowAddresses: [to] })
    assert.equal(await speak(), 'SSH-2.0-there')
  })

  it('passes on the end of one direction, and keeps the other open', async () => {
    await using world = await startWorld()
    const to = await world.raw(1, 443, (socket) => {
      let bytes = 0
      socket.on('data', (chunk) => {
        bytes += chunk.length
      })
      socket.on('end', () => socket.end(`${bytes}`))
    })
    world.dns.zone.set('good.example', [to])
    world.admit({ allowNames: ['good.example'] })
    const socket = await world.connect({ address: to, port: 443 })
    const hello = helloOf({ serverName: 'good.example' })
    const more = Buffer.alloc(8 * 1024 * 1024, 1)
    socket.write(hello)
    socket.end(more)
    assert.equal(await readAll(socket), `${hello.length + more.length}`)
  })

  it('waits for a slow reader instead of piling up', async () => {
    await using world = await startWorld()
    let sent = 0
    const to = await world.raw(1, 443, (socket) => {
      socket.on('data', () => {})
      const chunk = Buffer.alloc(1024 * 1024, 'x')
      const fill = () => {
        while (!socket.destroyed && sent < 512 && socket.write(chunk)) sent++
        if (!socket.destroyed && sent < 512) {
          socket.once('drain', () => {
            sent++
            fill()
          })
        }
      }
      fill()
    })
    world.dns.zone.set('good.example', [to])
    world.admit({ allowNames: ['good.example'] })
    const socket = await world.connect({ address: to, port: 443 })
    socket.pause()
    socket.write(helloOf({ serverName: 'good.example' }))
    let before = -1
    while (sent !== before || sent === 0) {
      before = sent
      await new Promise((resolve) => setTimeout(resolve, 300))
    }
    assert.ok(sent < 40, `${sent} MiB were taken from the host for a reader that reads nothing`)
  })

  it('passes HTTP/2 by the name of its connection', async () => {
    await using world = await startWorld()
    const to = await world.https(1, 'good.example', (_, response) => response.end('good'))
    world.admit({ allowNames: ['good.example'] })
    const socket = await world.connect({ address: to, port: 443 })
    const ca = [world.internetAuthority.certificate]
    const secured = connectTls({ socket, ca, servername: 'good.example', ALPNProtocols: ['h2', 'http/1.1'] })
    await once(secured, 'secureConnect')
    // The bytes inside are the sandbox's and the host's: the gate adds none.
    assert.equal(secured.authorized, true)
  })
})
