import assert from 'node:assert/strict'
import { once } from 'node:events'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import net, { type AddressInfo, type Socket } from 'node:net'
import { afterEach, beforeEach, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { RequestTurns } from './request-turns.ts'

let server: http.Server
let received: number
let handle: (request: IncomingMessage, response: ServerResponse) => void

beforeEach(async () => {
  received = 0
  const turns = new RequestTurns()
  server = http.createServer((request, response) => {
    received += 1
    turns.take(request, response, () => handle(request, response))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
})
afterEach(() => {
  server.closeAllConnections()
  server.close()
})

function connect(): Socket {
  return net.connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => {})
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`

it('the requests of one connection are handled one after the other, in their order', async () => {
  const open: string[] = []
  const seen: string[] = []
  handle = async ({ url = '' }, response) => {
    open.push(url)
    seen.push(open.join())
    for (let turn = 0; turn < 5; turn++) await nextTurn()
    open.pop()
    response.end(url)
  }
  const socket = connect()
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk
  })
  socket.write(get('/a') + get('/b') + get('/c'))
  while (!text.endsWith('/c')) await nextTurn()
  assert.deepEqual(seen, ['/a', '/b', '/c'])
  socket.destroy()
})

it('a connection that sends too far ahead is closed, and Node parses no further (canary of parser.onIncoming)', async () => {
  let handled = 0
  handle = () => {
    handled += 1
  }
  const socket = connect()
  socket.write(get('/').repeat(5000))
  await new Promise((done) => socket.once('close', done))
  assert.equal(handled, 1)
  assert.equal(received, 17, 'Node handed on more than the first request and those that may wait')
})

it('connections take turns: one that sends ahead holds nobody else up', async () => {
  const order: string[] = []
  handle = ({ url = '' }, response) => {
    order.push(url)
    response.end('x')
  }
  const [one, other] = [connect(), connect()]
  await Promise.all([once(one, 'connect'), once(other, 'connect')])
  one.write(get('/ahead').repeat(10))
  other.write(get('/other'))
  while (order.length < 11) await nextTurn()
  assert.ok(order.indexOf('/other') < 10, order.join())
  one.destroy()
  other.destroy()
})

it('what waits is dropped with the connection', async () => {
  let first: ServerResponse | undefined
  let handled = 0
  handle = (_, response) => {
    handled += 1
    first ??= response
  }
  const socket = connect()
  socket.write(get('/').repeat(3))
  while (!first || received < 3) await nextTurn()
  const closed = once(first, 'close')
  socket.destroy()
  await closed
  for (let turn = 0; turn < 5; turn++) await nextTurn()
  assert.equal(handled, 1)
})
