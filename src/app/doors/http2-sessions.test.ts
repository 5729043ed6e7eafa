import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import type { Http2Session, ServerHttp2Stream } from 'node:http2'
import { it } from 'node:test'
import { ManualClock } from '../../lib/clock.ts'
import { type RawClient as Client, get, RawClient, startListener } from './http2-fixture.ts'
import { Http2Sessions } from './http2-sessions.ts'

class FakeSession extends EventEmitter {
  readonly said: string[] = []
  goaway = () => void this.said.push('goaway')
  close = () => void this.said.push('close')
}

class FakeStream extends EventEmitter {
  writableEnded = false
  end(): void {
    this.writableEnded = true
    this.emit('close')
  }
}

function open() {
  const clock = new ManualClock()
  const sessions = new Http2Sessions(clock)
  const connect = () => {
    const session = new FakeSession()
    sessions.add(session as unknown as Http2Session)
    const begun: FakeStream[] = []
    const ask = () => {
      const stream = new FakeStream()
      const begin = () => void begun.push(stream)
      sessions.begin(session as unknown as Http2Session, stream as unknown as ServerHttp2Stream, begin)
      return stream
    }
    return { said: session.said, begun, ask }
  }
  const passes = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 50) {
      clock.advance(50)
      for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate)
    }
  }
  let hasLeft = false
  const leave = () =>
    void sessions.letLeave(5000).then(() => {
      hasLeft = true
    })
  return { sessions, connect, passes, leave, hasLeft: () => hasLeft }
}

it('a connection is told once it is quiet, and closed when its client had time to read', async () => {
  const { sessions, connect, passes, leave, hasLeft } = open()
  const { said, ask } = connect()
  const stream = ask()
  leave()
  await passes(1000)
  assert.deepEqual(said, [])
  stream.end()
  await passes(200)
  assert.deepEqual(said, [])
  await passes(150)
  assert.deepEqual([said, hasLeft(), sessions.isInUse(5000)], [['goaway'], false, true])
  await passes(2100)
  assert.deepEqual([said.slice(0, 2), hasLeft()], [['goaway', 'close'], true])
})

it('a connection that was just opened is not told before its client could send', async () => {
  const { sessions, connect, passes, leave } = open()
  const { said } = connect()
  leave()
  await passes(4900)
  assert.deepEqual([said, sessions.isInUse(5000)], [[], true])
  await passes(200)
  assert.deepEqual(said, ['goaway'])
})

it('streams on a connection that is never quiet begin when the client waits and was told', async () => {
  const { connect, passes, leave } = open()
  const { said, begun, ask } = connect()
  leave()
  for (let passed = 0; passed < 5000; passed += 100) {
    const stream = ask()
    await passes(100)
    assert.equal(begun.at(-1), stream)
    stream.end()
  }
  await passes(100)
  const [late, later] = [ask(), ask()]
  await passes(150)
  assert.equal(begun.includes(late), false)
  assert.deepEqual(said, [])
  await passes(200)
  assert.deepEqual([said, begun.slice(-2)], [['goaway'], [late, later]])
})

it('nobody waits for a stream that began long before', async () => {
  const { connect, passes, leave, hasLeft } = open()
  const { said, ask } = connect()
  ask()
  await passes(5000)
  leave()
  await passes(100)
  assert.deepEqual([said, hasLeft()], [['goaway'], true])
})

it('GOAWAY names the streams that waited as taken, and they are answered', async (context) => {
  let answerSlow = () => {}
  const listener = await startListener((request, response) => {
    const answer = () => void response.end(request.url)
    if (request.url === '/slow') answerSlow = answer
    else answer()
  })
  const client: Client = await RawClient.open(listener)
  context.after(() => client.close())
  const slow = client.request(get('/slow'))
  await client.settled(client.request(get('/first')))
  const left = listener.letLeave(300)
  const [late, later] = [client.request(get('/late')), client.request(get('/later'))]
  await left
  answerSlow()
  await listener.close({ graceMs: 1000 })
  const goaway = client.frames().find(({ type }) => type === 7)
  assert.deepEqual([goaway?.payload.readUInt32BE(0), goaway?.payload.readUInt32BE(4)], [later, 0])
  const ended = () => client.frames().filter(({ type, flags }) => type === 0 && flags === 1)
  assert.deepEqual(
    ended().map(({ stream }) => stream),
    [3, late, later, slow],
  )
})
