import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { RequestListener } from 'node:http'
import type { Socket } from 'node:net'
import { describe, it } from 'node:test'
import { readAll, startWorld, type World } from './gate-fixture.ts'
import { helloOf } from './hello-fixture.ts'
import { startSocks } from './socks-fixture.ts'

const within = { timeout: 300_000 }

/** A connection to a host that answers the first bytes with "on" and then waits. */
async function openTls(world: World, to: string, name: string): Promise<Socket> {
  const socket = await world.connect({ address: to, port: 443 })
  socket.write(helloOf({ serverName: name }))
  const [chunk] = (await once(socket, 'data')) as [Buffer]
  assert.equal(chunk.toString(), 'on')
  return socket
}

const waitingHost = (socket: Socket) => {
  socket.on('error', () => {}).once('data', () => socket.write('on'))
}

const isCut = async (socket: Socket): Promise<boolean> =>
  await Promise.race([
    once(socket, 'close').then(
      () => true,
      () => true,
    ),
    new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 300)),
  ])

/** Some connections are cut so early that even connecting fails. */
const isRefused = async (connecting: Promise<Socket>): Promise<boolean> =>
  await connecting.then(isCut, (error) => error.code === 'ECONNRESET')

/** Begins every answer, and ends only that to /done. */
const waitingUnlessDone: RequestListener = (request, response) => {
  response.flushHeaders()
  if (request.url === '/done') response.end()
}

describe('a changed policy', within, () => {
  it('cuts connections that are no longer allowed, and no others', async () => {
    await using world = await startWorld()
    const to = await world.raw(1, 443, waitingHost)
    world.dns.zone.set('one.example', [to]).set('two.example', [to])
    world.admit({ allowNames: ['one.example', 'two.example'] })
    const [one, two] = [await openTls(world, to, 'one.example'), await openTls(world, to, 'two.example')]
    world.admit({ allowNames: ['one.example', 'two.example'] })
    world.admit({ allowNames: ['one.example', 'three.example'] })
    assert.deepEqual(await Promise.all([isCut(one), isCut(two)]), [false, true])
    world.forget()
    assert.equal(await isCut(one), true)
    assert.equal(await isRefused(world.connect({ address: to, port: 443 })), true)
  })

  it('cuts connections by address', async () => {
    await using world = await startWorld()
    const to = await world.raw(1, 22, waitingHost)
    world.admit({ internet: true, headerRules: [{ name: 'x.example', headers: {} }] })
    const socket = await world.connect({ address: to, port: 22 })
    socket.write('SSH-2.0-me\r\n')
    await once(socket, 'data')
    world.admit({
      internet: true,
      denyAddresses: [`${to}/32`],
      headerRules: [{ name: 'x.example', headers: {} }],
    })
    assert.equal(await isCut(socket), true)
  })

  it('cuts requests in progress, and checks a waiting connection again', async () => {
    await using world = await startWorld()
    const to = await world.http(1, waitingUnlessDone, 'one.example')
    world.admit({ allowNames: ['one.example'] })
    const open = async (path: string) => {
      const socket = await world.connect({ address: to, port: 80 })
      socket.write(`GET ${path} HTTP/1.1\r\nHost: one.example\r\n\r\n`)
      await once(socket, 'data')
      return socket
    }
    const [busy, idle] = [await open('/wait'), await open('/done')]
    await new Promise((resolve) => setTimeout(resolve, 50))
    world.admit({ allowNames: ['two.example'] })
    assert.equal(await isCut(busy), true)
    const received = readAll(idle)
    idle.write('GET / HTTP/1.1\r\nHost: one.example\r\n\r\n')
    assert.match(await received, /^HTTP\/1\.1 403/m)
  })

  it('checks the addresses of a name with a rule again', async () => {
    await using world = await startWorld()
    const to = await world.http(1, waitingUnlessDone, 'one.example')
    const headerRules = [{ name: 'one.example', headers: { 'X-Key': 'value' } }]
    world.admit({ internet: true, headerRules })
    const open = async (path: string) => {
      const socket = await world.connect({ address: world.address(9), port: 80 })
      socket.write(`GET ${path} HTTP/1.1\r\nHost: one.example\r\n\r\n`)
      await once(socket, 'data')
      return socket
    }
    const [busy, idle] = [await open('/wait'), await open('/done')]
    await new Promise((resolve) => setTimeout(resolve, 50))
    world.admit({ internet: true, headerRules, denyAddresses: [to] })
    assert.equal(await isCut(busy), true)
    const received = readAll(idle)
    idle.write('GET /done HTTP/1.1\r\nHost: one.example\r\n\r\n')
    assert.match(await received, /^HTTP\/1\.1 403/m)
  })

  it('cuts connections that would not go through the new proxy', async () => {
    await using world = await startWorld()
    const to = await world.raw(1, 443, waitingHost)
    await using socks = await startSocks(world.address(80))
    world.dns.zone.set('one.example', [to])
    world.admit({ allowNames: ['one.example'] })
    const socket = await openTls(world, to, 'one.example')
    world.admit({ allowNames: ['one.example'], proxy: socks.proxy })
    assert.equal(await isCut(socket), true)
  })

  it('stops connections that are being made', async () => {
    await using world = await startWorld({
      resolve: async () => {
        await new Promise((resolve) => setTimeout(resolve, 200))
        return [world.address(1)]
      },
    })
    let reached = 0
    const to = await world.raw(1, 443, () => void reached++)
    world.admit({ allowNames: ['one.example'] })
    const socket = await world.connect({ address: to, port: 443 })
    socket.write(helloOf({ serverName: 'one.example' }))
    await new Promise((resolve) => setTimeout(resolve, 50))
    world.admit({})
    assert.equal(await isCut(socket), true)
    await new Promise((resolve) => setTimeout(resolve, 250))
    assert.equal(reached, 0)
  })

  it('inherits nothing from the sandbox that had the address before', async () => {
    await using world = await startWorld()
    const to = await world.raw(1, 443, waitingHost)
    world.dns.zone.set('one.example', [to])
    world.admit({ allowNames: ['one.example'] })
    const socket = await openTls(world, to, 'one.example')
    const policy = { internet: true, allowAddresses: [], allowNames: ['one.example'], denyAddresses: [] }
    const rest = { dnsServers: null, headerRules: [], proxy: null }
    const other = { sandboxID: 'iother', start: 'of another', teamID: 'other' }
    world.gate.admit(world.sandbox, { ...other, policy: { ...policy, ...rest } })
    assert.equal(await isCut(socket), true)
  })

  it('is not touched when the sandbox that had the address before is forgotten late', async () => {
    await using world = await startWorld()
    const to = await world.raw(1, 443, waitingHost)
    world.dns.zone.set('one.example', [to])
    world.admit({ allowNames: ['one.example'] })
    const socket = await openTls(world, to, 'one.example')
    world.gate.forget(world.sandbox, 'of another')
    assert.equal(await isCut(socket), false)
    assert.equal(await isCut(await openTls(world, to, 'one.example')), false)
  })
})

describe('limits of the gate', within, () => {
  it('bound the connections of one sandbox, and of all sandboxes', async () => {
    await using world = await startWorld({ limits: { connectionsPerClient: 3, connections: 5 } })
    const to = await world.raw(1, 443, waitingHost)
    world.dns.zone.set('one.example', [to])
    const [first, second] = [world.sandbox, world.address(201)]
    for (const from of [first, second]) world.admit({ allowNames: ['one.example'] }, from)
    const open = async (from: string) => await world.connect({ address: to, port: 443 }, from)
    const opened = [await open(first), await open(first), await open(first)]
    assert.equal(await isRefused(open(first)), true)
    const others = [await open(second), await open(second)]
    assert.equal(await isRefused(open(second)), true)
    opened[0]!.destroy()
    others[0]!.destroy()
    await new Promise((resolve) => setTimeout(resolve, 50))
    assert.equal(await isCut(await open(first)), false)
  })

  it('end connections that are silent, or never finish their request', async () => {
    await using world = await startWorld({ limits: { openingMs: 150, headMs: 300 } })
    const to = await world.http(1, (_, response) => response.end('ok'), 'one.example')
    world.admit({ allowNames: ['one.example'] })
    const beginnings = [
      '',
      'GE',
      helloOf({ serverName: 'one.example' }).subarray(0, 30),
      'GET / HTTP/1.1\r\nHost: on',
    ]
    const afterOne = 'GET / HTTP/1.1\r\nHost: one.example\r\n\r\nGET / HT'
    for (const options of [...beginnings, afterOne]) {
      const socket = await world.connect({ address: to, port: 80 })
      socket.write(options)
      // Until the gate closes it; nobody else does.
      await readAll(socket)
    }
  })

  it('let the server speak first if the address is allowed', async () => {
    await using world = await startWorld()
    const to = await world.raw(1, 22, (socket) => socket.end('SSH-2.0-there'))
    world.admit({ internet: true, headerRules: [{ name: 'x.example', headers: {} }] })
    assert.equal(await readAll(await world.connect({ address: to, port: 22 })), 'SSH-2.0-there')
  })

  it('bound the time to reach a host', async () => {
    await using world = await startWorld({ limits: { dialMs: 200 }, resolve: () => new Promise(() => {}) })
    world.admit({ allowNames: ['slow.example'] })
    const { status, body } = await world.get(world.address(1), { Host: 'slow.example' })
    assert.equal(status, 502)
    assert.match(body, /no connection within 0\.2 s/)
  })

  it('reject strangers, and connections whose destination is unknown', async () => {
    await using world = await startWorld({ originalDestination: () => null })
    const to = world.address(1)
    assert.equal(await isRefused(world.connect({ address: to, port: 80 })), true)
    world.admit({ internet: true, allowNames: ['*'] })
    assert.equal(await isRefused(world.connect({ address: to, port: 80 })), true)
  })
})
