import assert from 'node:assert/strict'
import { once } from 'node:events'
import net, { type AddressInfo, type Socket } from 'node:net'
import { it } from 'node:test'
import { createListener } from './http-server.ts'

const request = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'

it('connections that only wait make place for new ones once there are too many', async () => {
  const listener = createListener({ keepAliveTimeout: 300_000 }, undefined, 10)
  listener.server.on('request', (_, response) => response.end('served'))
  await listener.listen('127.0.0.1', 0)
  const { port } = listener.server.address() as AddressInfo
  const connect = () => net.connect(port, '127.0.0.1').on('error', () => {})
  /** Undefined: the connection was turned away. */
  const ask = async (socket: Socket): Promise<string | undefined> => {
    socket.write(request)
    const closed = new Promise<[]>((done) => socket.once('close', () => done([])))
    const [answer] = await Promise.race([once(socket, 'data').catch(() => []), closed])
    return answer && String(answer).split('\r\n\r\n')[1]
  }
  const idle = Array.from({ length: 10 }, connect)
  for (const socket of idle) assert.equal(await ask(socket), 'served')
  const closed = Promise.all(idle.map((socket) => new Promise((done) => socket.once('close', done))))
  assert.equal(await ask(connect()), undefined)
  await closed
  const next = connect()
  assert.equal(await ask(next), 'served')
  next.destroy()
  await listener.close(100)
})
