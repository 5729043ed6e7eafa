import assert from 'node:assert/strict'
import { once } from 'node:events'
import http, { type IncomingMessage } from 'node:http'
import net, { type AddressInfo, type Socket } from 'node:net'
import { describe, it } from 'node:test'
import { ManualClock } from '../clock.ts'
import { UpstreamPool } from './upstream-pool.ts'

/** A server that answers each request by hand, and a pool of connections to it. */
async function poolFixture(options: { maxIdle?: number; head?: string } = {}) {
  const { maxIdle = 8, head = '' } = options
  const sockets: Socket[] = []
  const server = net.createServer((socket) => {
    sockets.push(socket.on('error', () => {}))
    socket.on('data', () => socket.write(`HTTP/1.1 200 OK\r\n${head}Content-Length: 2\r\n\r\nok`))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const dialled: Socket[] = []
  const dial = async (): Promise<Socket> => {
    const socket = net.connect({ port, host: '127.0.0.1' })
    await once(socket, 'connect')
    dialled.push(socket)
    return socket
  }
  const clock = new ManualClock()
  const agent = new UpstreamPool({ dial, maxIdle, clock })
  const ask = async (): Promise<http.ClientRequest> => {
    const request = http.request({ agent, port: 80 }).end()
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    const closed = once(request, 'close')
    assert.equal(Buffer.concat(await response.toArray()).toString(), 'ok')
    await closed
    return request
  }
  const close = async () => {
    agent.destroy()
    for (const socket of sockets) socket.destroy()
    server.close()
  }
  return { agent, ask, clock, dialled, sockets, [Symbol.asyncDispose]: close }
}

const closed = async (socket: Socket) => socket.destroyed || (await once(socket, 'close'))

describe('a pool of upstream connections', () => {
  it('sends the next request over the connection of the last', async () => {
    await using pool = await poolFixture()
    assert.equal((await pool.ask()).reusedSocket, false)
    assert.equal((await pool.ask()).reusedSocket, true)
    assert.equal(pool.dialled.length, 1)
  })

  it('closes a connection that receives bytes which nobody asked for', async () => {
    await using pool = await poolFixture()
    await pool.ask()
    pool.sockets[0]!.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil')
    await closed(pool.dialled[0]!)
    assert.equal((await pool.ask()).reusedSocket, false)
  })

  it('closes a connection that was idle for too long, and not before', async () => {
    await using pool = await poolFixture()
    await pool.ask()
    pool.clock.advance(3_000)
    await pool.ask()
    pool.clock.advance(3_000)
    assert.equal(pool.dialled[0]!.destroyed, false)
    pool.clock.advance(1_000)
    await closed(pool.dialled[0]!)
    assert.equal((await pool.ask()).reusedSocket, false)
  })

  it('keeps a connection no longer than the server says', async () => {
    await using short = await poolFixture({ head: 'Keep-Alive: timeout=2\r\n' })
    await short.ask()
    short.clock.advance(1_000)
    await closed(short.dialled[0]!)
    await using none = await poolFixture({ head: 'Keep-Alive: timeout=1\r\n' })
    await none.ask()
    await closed(none.dialled[0]!)
  })

  it('keeps no connection that the server closes after its answer', async () => {
    await using pool = await poolFixture({ head: 'Connection: close\r\n' })
    await pool.ask()
    await closed(pool.dialled[0]!)
  })

  it('keeps a limited number of idle connections', async () => {
    await using pool = await poolFixture({ maxIdle: 1 })
    await Promise.all([pool.ask(), pool.ask(), pool.ask()])
    assert.equal(pool.dialled.length, 3)
    const open = () => pool.dialled.filter((socket) => !socket.destroyed)
    while (open().length > 1) await Promise.race(open().map(closed))
    assert.equal(open().length, 1)
  })

  it('forgets a connection that the server closed while it was idle', async () => {
    await using pool = await poolFixture()
    await pool.ask()
    pool.sockets[0]!.destroy()
    await closed(pool.dialled[0]!)
    assert.equal((await pool.ask()).reusedSocket, false)
  })

  it('reports to a request that its connection could not be opened', async () => {
    const refuse = () => Promise.reject(new Error('refused'))
    const agent = new UpstreamPool({ dial: refuse, maxIdle: 1, clock: new ManualClock() })
    const [error] = (await once(http.request({ agent, port: 80 }).end(), 'error')) as [Error]
    assert.equal(error.message, 'refused')
  })

  it('closes all connections when it is destroyed', async () => {
    await using pool = await poolFixture()
    await pool.ask()
    pool.agent.destroy()
    await closed(pool.dialled[0]!)
  })
})
