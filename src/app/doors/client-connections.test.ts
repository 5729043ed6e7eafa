import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import net, { type AddressInfo } from 'node:net'
import { it, type TestContext } from 'node:test'
import { ManualClock } from '../../lib/clock.ts'
import { ClientConnections } from './client-connections.ts'

const request = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
const quietMs = 5000

async function open(context: TestContext) {
  const clock = new ManualClock()
  const server = createServer()
  const connections = new ClientConnections(server, clock)
  const unanswered: ServerResponse[] = []
  server.on('request', ({ url }, response) =>
    url === '/held' ? void unanswered.push(response) : response.end('served'),
  )
  await once(server.listen(0, '127.0.0.1'), 'listening')
  context.after(() => {
    server.close()
    server.closeAllConnections()
  })
  const connect = async () => {
    const socket = net.connect((server.address() as AddressInfo).port, '127.0.0.1')
    await once(server, 'connection')
    return socket
  }
  const ask = async (socket: net.Socket, text = request) => {
    socket.write(text)
    return String((await once(socket, 'data'))[0])
  }
  const passes = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 50) {
      clock.advance(50)
      // Closed sockets and answers take some turns of the event loop.
      for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate)
    }
  }
  let hasLeft = false
  const leave = () =>
    void connections.letLeave(quietMs).then(() => {
      hasLeft = true
    })
  return { connections, unanswered, connect, ask, passes, leave, hasLeft: () => hasLeft }
}

it('a connection that was used lately stays open until an answer has told its client to leave', async (context) => {
  const { connect, ask, passes, leave, hasLeft } = await open(context)
  const socket = await connect()
  assert.match(await ask(socket), /keep-alive/)
  await passes(3000)
  leave()
  await passes(1900)
  assert.deepEqual([socket.readyState, hasLeft()], ['open', false])
  assert.match(await ask(socket), /Connection: close/)
  await passes(50)
  assert.equal(hasLeft(), true)
})

it('a connection that is quiet for long is closed, and its client has time to notice while the server serves', async (context) => {
  const { connect, ask, passes, leave, hasLeft } = await open(context)
  const socket = await connect()
  await ask(socket)
  leave()
  await passes(4900)
  assert.equal(socket.readyState, 'open')
  const closed = once(socket.resume(), 'close')
  await passes(200)
  await closed
  assert.equal(hasLeft(), false)
  assert.match(await ask(await connect()), /Connection: close/)
  await passes(1000)
  assert.equal(hasLeft(), true)
})

it('nobody waits for a stream that began before clients were asked to leave', async (context) => {
  const { unanswered, connect, passes, leave, hasLeft } = await open(context)
  const socket = await connect()
  socket.write(request.replace('/', '/held'))
  for (let turn = 0; unanswered.length === 0 && turn < 10_000; turn++) await new Promise(setImmediate)
  unanswered[0]!.write('begun')
  leave()
  await passes(50)
  assert.equal(hasLeft(), true)
  unanswered[0]!.end()
})

it('an answer under way whose head was not sent tells the client to leave', async (context) => {
  const { connections, unanswered, connect } = await open(context)
  const socket = await connect()
  const answer = socket.toArray()
  socket.write(request.replace('/', '/held'))
  for (let turn = 0; unanswered.length === 0 && turn < 10_000; turn++) await new Promise(setImmediate)
  connections.askToLeave()
  unanswered[0]!.end('late')
  assert.match((await answer).join(''), /Connection: close[\s\S]*late$/)
})

it('a connection on which the next request begins is not closed as quiet', async (context) => {
  const { connections, connect, ask, passes } = await open(context)
  const [busy, idle] = [await connect(), await connect()]
  for (const socket of [busy, idle]) await ask(socket)
  await passes(quietMs)
  busy.write(request.slice(0, 9))
  const closed = once(idle.resume(), 'close')
  // By then the server has read what the busy client sent.
  await passes(200)
  assert.equal(connections.closeQuiet(quietMs), true)
  await closed
  assert.match(await ask(busy, request.slice(9)), /served/)
})

it('a connection without a request counts as in use for some time', async (context) => {
  const { connections, connect, passes } = await open(context)
  await connect()
  assert.equal(connections.isInUse(quietMs), true)
  await passes(quietMs)
  assert.equal(connections.isInUse(quietMs), false)
})

it('a connection is quiet also if the end of a body came after the answer', async (context) => {
  const { connections, connect, ask, passes } = await open(context)
  const socket = await connect()
  const body = 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n'
  assert.match(await ask(socket, body), /served/)
  socket.write('0\r\n\r\n')
  const closed = once(socket.resume(), 'close')
  await passes(quietMs)
  assert.equal(connections.closeQuiet(quietMs), true)
  await closed
})
