import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import net, { type AddressInfo, type Socket } from 'node:net'
import { it, type TestContext } from 'node:test'
import { Worker } from 'node:worker_threads'
import { eventually } from '../../../test/support/eventually.ts'
import { delay } from '../../lib/clock.ts'
import { createListener } from './http-server.ts'

const request = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'

/** Takes ten connections at a time. */
async function fullListener(answer = 'served') {
  const listener = createListener({ keepAliveTimeout: 300_000 }, undefined, 10)
  let answered = 0
  listener.server.on('request', (_, response) => {
    answered++
    response.end(answer)
  })
  await listener.listen('127.0.0.1', 0)
  const { port } = listener.server.address() as AddressInfo
  return {
    connect: () => net.connect(port, '127.0.0.1').on('error', () => {}),
    close: () => listener.close({ graceMs: 100 }),
    answered: () => answered,
  }
}

/** Undefined: the connection was turned away. */
async function ask(socket: Socket): Promise<string | undefined> {
  socket.write(request)
  const closed = new Promise<[]>((done) => socket.once('close', () => done([])))
  const [answer] = await Promise.race([once(socket, 'data').catch(() => []), closed])
  return answer && String(answer).split('\r\n\r\n')[1]
}

const closing = (sockets: Socket[]) =>
  Promise.all(sockets.map((socket) => new Promise((done) => socket.once('close', done))))

async function servesAgain(connect: () => Socket): Promise<void> {
  const next = connect()
  assert.equal(await ask(next), 'served')
  next.destroy()
}

/** A further connection is turned away, and in its place all of these are closed. */
async function givesWay(connect: () => Socket, sockets: Socket[]): Promise<void> {
  const closed = closing(sockets)
  assert.equal(await ask(connect()), undefined)
  await closed
}

it('idle connections are closed for new ones when there are too many', async () => {
  const { connect, close } = await fullListener()
  const idle = Array.from({ length: 10 }, connect)
  for (const socket of idle) assert.equal(await ask(socket), 'served')
  await givesWay(connect, idle)
  await servesAgain(connect)
  await close()
})

it('connections that send no request, or never finish one, are closed for new ones', async () => {
  const { connect, close } = await fullListener()
  const silent = Array.from({ length: 10 }, connect)
  await Promise.all(silent.map((socket) => once(socket, 'connect')))
  for (const socket of silent.slice(5)) socket.write('GET / HTTP/1.1\r\nHost:')
  await givesWay(connect, silent)
  await servesAgain(connect)
  await close()
})

it('connections whose clients send the body of an answered request without end are closed for new ones', async () => {
  const { connect, close } = await fullListener()
  const slow = Array.from({ length: 10 }, connect)
  const post = 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nbegun'
  await Promise.all(
    slow.map((socket) => {
      socket.write(post)
      return once(socket, 'data')
    }),
  )
  const dripping = setInterval(() => slow.map((socket) => socket.write('.')), 10)
  await givesWay(connect, slow)
  clearInterval(dripping)
  await servesAgain(connect)
  await close()
})

it('connections whose clients do not read their answers are closed for new ones', async () => {
  const { connect, close, answered } = await fullListener('x'.repeat(16 * 1024 * 1024))
  const slow = Array.from({ length: 10 }, connect)
  for (const socket of slow) socket.pause().write(request)
  await eventually(() => assert.equal(answered(), 10))
  const closed = closing(slow)
  assert.equal(await ask(connect()), undefined)
  for (const socket of slow) socket.resume()
  await closed
  const next = connect()
  assert.ok((await ask(next))?.startsWith('xx'))
  next.destroy()
  await close()
})

/** Listens in another process on this port, which it gets as systemd would hand it over, and returns what it says. */
async function listenOnInherited(port: number): Promise<string> {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { fd } = (server as unknown as { _handle: { fd: number } })._handle
  const wanted = port || (server.address() as AddressInfo).port
  const script = `
    import { createListener } from '${import.meta.dirname}/http-server.ts'
    const listener = createListener({}, undefined)
    const done = await listener.listen('127.0.0.1', ${wanted}, 3).then(() => 'listens', (error) => error.constructor.name + error.message)
    console.log(done)
    process.exit()`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit', fd],
  })
  const said = Buffer.concat(await child.stdout!.toArray()).toString()
  server.close()
  return said
}

it('a port that systemd has opened by other settings is a reason not to start, and not to try again', async () => {
  assert.equal(await listenOnInherited(0), 'listens\n')
  assert.match(
    await listenOnInherited(1),
    /^StartRefusalsystemd opened 127.0.0.1:\d+ for Warren, but .* 127.0.0.1:1\./,
  )
})

async function openListener(context: TestContext) {
  const listener = createListener({ keepAliveTimeout: 300_000 }, undefined)
  listener.server.on('request', (_, response) => response.end('served'))
  listener.server.on('checkContinue', (_, response) => {
    response.writeContinue()
    response.end('served')
  })
  await listener.listen('127.0.0.1', 0)
  context.after(() => listener.close({ graceMs: 100 }))
  const { port } = listener.server.address() as AddressInfo
  return { listener, port, connect: () => net.connect(port, '127.0.0.1').on('error', () => {}) }
}

it('a server that asks clients to leave serves old and new connections, each for one more request', async (context) => {
  const { listener, connect } = await openListener(context)
  const [used, idle] = [connect(), connect()]
  for (const socket of [used, idle]) assert.equal(await ask(socket), 'served')
  listener.askToLeave()
  for (const text of [request, request.replace('\r\n\r\n', '\r\nExpect: 100-continue\r\n\r\n')]) {
    for (const socket of [used.destroyed ? connect() : used, connect()]) {
      const answer = socket.toArray()
      socket.write(text)
      assert.match((await answer).join(''), /HTTP\/1.1 200 [\s\S]*Connection: close\r\n[\s\S]*served$/)
    }
  }
  await delay(400)
  assert.equal(idle.destroyed, false, 'a quiet connection stays open')
  assert.equal(await ask(idle), 'served')
})

it('a request that arrived while the server was too busy to read it is answered although its connection was idle', async (context) => {
  const { listener, port } = await openListener(context)
  // In a thread of its own, so that it sends while this one is busy.
  const client = new Worker(
    `const { parentPort, workerData: { port, request } } = require('node:worker_threads')
    const socket = require('node:net').connect(port, '127.0.0.1')
    socket.on('data', (data) => parentPort.postMessage(String(data)))
    socket.on('error', () => {}).on('close', () => parentPort.postMessage('closed'))
    socket.write(request)
    parentPort.on('message', () => socket.write(request))`,
    { eval: true, workerData: { port, request } },
  )
  context.after(() => client.terminate())
  const first = String(await once(client, 'message'))
  assert.match(first, /served$/)
  const closed = listener.close({ graceMs: 4000 })
  const second = once(client, 'message')
  // Idle connections are closed 300 ms from now.
  await delay(100)
  client.postMessage('again')
  // Timers that are due run next then, before anything is read.
  await new Promise(setImmediate)
  const busyUntil = Date.now() + 500
  while (Date.now() < busyUntil);
  assert.match(String(await second), /Connection: close[\s\S]*served$/)
  await closed
})
