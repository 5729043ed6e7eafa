/** Floods of HTTP/2 frames: they end the connection that sends them, and others are served meanwhile. */
import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Listener } from './http-server.ts'
import { endStream, frameTypes, get, RawClient, startListener } from './http2-fixture.ts'

const within = { timeout: 300_000 }
const maxRounds = 200_000
/** The server and its clients share an event loop: it would have had as many turns to read. */
const servedMeanwhile = 20
const cancel = Buffer.from([0, 0, 0, 8])

let listener: Listener
let hostile: RawClient
let handled: string[] = []
before(async () => {
  listener = await startListener(({ url = '' }, response) => {
    handled.push(url)
    if (url !== '/held') response.end('answered')
  })
})
after(() => listener.close({ graceMs: 100 }))
beforeEach(async () => {
  handled = []
  hostile = await RawClient.open(listener)
})
afterEach(() => hostile.close())

async function assertOthersAreServed(): Promise<void> {
  const other = await RawClient.open(listener)
  const stream = other.request(get('/other'))
  await other.settled(stream)
  const data = other.frames().find(({ type }) => type === frameTypes.data)
  assert.equal(`${data?.payload}`, 'answered')
  other.close()
}

/** Waits until the server has read what was sent, or has ended the connection. False: it serves others and reads no more. */
async function isStillRead(): Promise<boolean> {
  for (let served = 0; served < servedMeanwhile; served++) {
    const { unsentBytes } = hostile
    if (unsentBytes === 0 || hostile.isOver) return true
    await assertOthersAreServed()
    if (hostile.unsentBytes !== unsentBytes) served = 0
  }
  return false
}

/** Repeats what is hostile until the server ends the connection or, where it `mayStop`, reads no more of it. */
async function flood(send: (round: number) => void, { mayStop = false } = {}): Promise<void> {
  let isRead = true
  for (let round = 0; round < maxRounds && isRead && !hostile.isOver; round++) {
    send(round)
    if (round % 200 !== 199) continue
    await nextTurn()
    isRead = await isStillRead()
    if (round % 5000 === 4999) await assertOthersAreServed()
  }
  await assertOthersAreServed()
  assert.ok(hostile.isOver || (mayStop && !isRead), 'the connection was not ended')
}

it('streams that are opened and reset at once do not overload the server', within, async () => {
  await flood(() => hostile.send(frameTypes.reset, 0, hostile.request(get('/held')), cancel))
  const begun = handled.filter((url) => url === '/held').length
  assert.ok(begun < 1000, `${begun} of the streams were begun`)
})

it('an endless header block is cut off', within, async () => {
  hostile.send(frameTypes.headers, endStream, 1, RawClient.encode(get('/held')))
  await flood((round) => {
    hostile.send(frameTypes.continuation, 0, 1, RawClient.encode([[`x-${round}`, 'y']]))
  })
  assert.deepEqual(
    handled.filter((url) => url !== '/other'),
    [],
  )
})

it('unread acknowledgements of settings do not fill the memory', within, async () => {
  hostile.stopReading()
  await flood(() => hostile.send(frameTypes.settings, 0, 0, Buffer.alloc(0)), { mayStop: true })
})

it('hundreds of requests at once take turns with those of others', within, async () => {
  const other = await RawClient.open(listener)
  for (let i = 0; i < 200; i++) hostile.request(get('/many'))
  await other.settled(other.request(get('/other')))
  assert.ok(handled.indexOf('/other') < 200, 'it was begun last')
  other.close()
})
