import assert from 'node:assert/strict'
import { once } from 'node:events'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import net, { type AddressInfo, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { ManualClock } from './clock.ts'
import { RequestTurns } from './request-turns.ts'

let server: http.Server
let received: number
let handle: (request: IncomingMessage, response: ServerResponse) => void
let clock: ManualClock

beforeEach(async () => {
  received = 0
  clock = new ManualClock()
  const turns = new RequestTurns(clock)
  server = http.createServer((request, response) => {
    received += 1
    turns.enter(request, response, () => handle(request, response))
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

describe('a connection that sends too far ahead', () => {
  const flood = (): Socket => {
    const socket = connect()
    socket.write(get('/').repeat(5000))
    return socket
  }
  const closing = (socket: Socket) => new Promise((done) => socket.once('close', done))

  it('is closed, and Node parses no further (canary of parser.onIncoming)', async () => {
    let handled = 0
    handle = () => {
      handled += 1
    }
    const closed = closing(flood())
    while (received < 17) await nextTurn()
    clock.advance(2000)
    await closed
    assert.equal(handled, 1)
    assert.equal(received, 17, 'Node handed on more than the first request and those that may wait')
  })

  it('stays open for a while, unread and unanswered, so that its client does not return at once', async () => {
    let handled = 0
    handle = (_, response) => {
      handled += 1
      response.end('x')
    }
    const socket = flood()
    let isClosed = false
    const closed = closing(socket).then(() => {
      isClosed = true
    })
    while (received < 17) await nextTurn()
    // Its further bytes stay unread: the kernel's buffer fills up and accepts no more.
    while (socket.writableLength > 0 && socket.write(get('/').repeat(5000))) await nextTurn()
    for (let turn = 0; turn < 50; turn++) await nextTurn()
    clock.advance(1999)
    for (let turn = 0; turn < 50; turn++) await nextTurn()
    assert.deepEqual({ isClosed, received, handled }, { isClosed: false, received: 17, handled: 1 })
    clock.advance(1)
    await closed
  })

  it('is closed at once if many are open already', async () => {
    handle = () => {}
    const left = Array.from({ length: 256 }, flood)
    while (received < 256 * 17) await nextTurn()
    await closing(flood())
    assert.deepEqual(new Set(left.map(({ destroyed }) => destroyed)), new Set([false]))
    clock.advance(2000)
    await Promise.all(left.map(closing))
    const next = flood()
    while (received < 258 * 17) await nextTurn()
    assert.equal(next.destroyed, false)
    next.destroy()
  })
})

it('connections take turns, so one that pipelines does not delay others', async () => {
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

it('waiting requests are dropped with the connection', async () => {
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
