import assert from 'node:assert/strict'
import { once } from 'node:events'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import net, { type AddressInfo } from 'node:net'
import { it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { ManualClock } from '../clock.ts'
import { BodyFlow } from './body-flow.ts'
import { ChunkPacer } from './chunk-pacer.ts'
import { connectUpstream } from './upstream-socket.ts'

it('a pacer allows a number of pieces a second, and returns the wait for the next', () => {
  const clock = new ManualClock()
  const pacer = new ChunkPacer(clock)
  let resumed = 0
  const spend = (pieces: number) => pacer.spend(pieces, () => resumed++)
  assert.equal(spend(10), 0)
  assert.equal(spend(20_000), 1000)
  clock.advance(999)
  assert.equal(resumed, 0)
  clock.advance(1)
  assert.equal(resumed, 1)
  clock.advance(60_000)
  assert.equal(spend(10), 0, 'nothing is saved up or owed after a while')
})

it('a body of tiny pieces is read at that pace, and arrives whole', { timeout: 300_000 }, async () => {
  const total = 100_000
  const source = net.createServer((socket) =>
    socket.once('data', () => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
      socket.end(`${'1\r\nx\r\n'.repeat(total)}0\r\n\r\n`)
    }),
  )
  const clock = new ManualClock()
  const pacer = new ChunkPacer(clock)
  let passed = 0
  const relay = http.createServer((_: IncomingMessage, response: ServerResponse) => {
    const { port } = source.address() as AddressInfo
    http.get({ createConnection: () => connectUpstream({ host: '127.0.0.1', port }) }, (incoming) => {
      incoming.on('data', (chunk: Buffer) => {
        passed += chunk.length
      })
      new BodyFlow(incoming, response, { ownTrailers: null, pacer })
    })
  })
  for (const server of [source, relay]) await once(server.listen(0, '127.0.0.1'), 'listening')
  const client = http.get({ port: (relay.address() as AddressInfo).port, agent: false })
  const [answer] = (await once(client, 'response')) as [IncomingMessage]
  let received = 0
  answer.on('data', (chunk: Buffer) => {
    received += chunk.length
  })
  while (received === 0) await nextTurn()
  for (let turn = 0; turn < 200; turn++) await nextTurn()
  assert.ok(passed <= 2000, `${passed} pieces were taken before their time`)
  let seconds = 0
  for (; received < total; seconds++) {
    const before = received
    clock.advance(1000)
    while (received === before) await nextTurn()
  }
  assert.equal(received, total)
  assert.ok(seconds >= 4, `it took ${seconds} s`)
  source.close()
  relay.close()
})
