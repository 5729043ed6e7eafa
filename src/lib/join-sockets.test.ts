import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { delay } from './clock.ts'
import { joinSockets } from './join-sockets.ts'

/** Two ends of one loopback connection, each of which may be half closed. */
async function pair(t: TestContext): Promise<[Socket, Socket]> {
  const server = createServer({ allowHalfOpen: true })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const near = connect({
    port: (server.address() as AddressInfo).port,
    host: '127.0.0.1',
    allowHalfOpen: true,
  })
  const [far] = (await once(server, 'connection')) as [Socket]
  server.close()
  for (const socket of [near, far]) socket.on('error', () => {})
  t.after(() => [near, far].forEach((socket) => void socket.destroy()))
  return [near, far]
}

async function joined(t: TestContext, idleMs: number): Promise<{ client: Socket; service: Socket }> {
  const [client, clientSide] = await pair(t)
  const [serviceSide, service] = await pair(t)
  joinSockets(clientSide, serviceSide, idleMs)
  return { client, service }
}

test('a side that has ended still receives, for as long as the other side sends', async (t) => {
  const { client, service } = await joined(t, 3000)
  const closed = once(client, 'close')
  let heard = ''
  client.on('data', (chunk) => {
    heard += chunk
  })
  client.end('question')
  assert.equal(String((await once(service, 'data'))[0]), 'question')
  for (let part = 0; part < 4; part++) {
    await delay(1000)
    service.write('.')
  }
  service.end('answer')
  await closed
  assert.equal(heard, '....answer')
})

test('a connection that one side has ended and the other keeps open in silence is closed', async (t) => {
  const { client, service } = await joined(t, 100)
  client.resume().end()
  service.resume()
  await new Promise((resolve) => client.once('close', resolve))
})

test('silence alone closes nothing', async (t) => {
  const { client, service } = await joined(t, 100)
  await delay(400)
  client.write('still there')
  assert.equal(String((await once(service, 'data'))[0]), 'still there')
})
