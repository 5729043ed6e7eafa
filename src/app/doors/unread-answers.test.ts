import assert from 'node:assert/strict'
import { it } from 'node:test'
import { get, RawClient, startListener } from './http2-fixture.ts'
import { UnreadAnswers } from './unread-answers.ts'

it('beyond the limit, the connection with the most unread bytes is cut', () => {
  const unread = new UnreadAnswers(100)
  const cut: string[] = []
  const connect = (name: string) => ({ destroy: () => void cut.push(name) })
  const [large, small] = [connect('large'), connect('small')]
  const reads = unread.add(large, 60)
  unread.add(small, 30)
  unread.add(small, 10)
  assert.deepEqual(cut, [])
  reads()
  reads()
  unread.add(large, 60)
  assert.deepEqual(cut, [])
  unread.add(small, 1)
  assert.deepEqual(cut, ['large'])
})

it('clients that ask for more than they read are cut off, and others are served', async (t) => {
  const listener = await startListener(({ url }, response) =>
    response.end(url === '/large' ? Buffer.alloc(4 * 1024 * 1024) : 'small'),
  )
  t.after(() => listener.close({ graceMs: 100 }))
  const hostile = await RawClient.open(listener)
  t.after(() => hostile.close())
  for (let asked = 0; asked < 80 && !hostile.isOver; asked++) hostile.request(get('/large'))
  while (!hostile.isOver) {
    await new Promise(setImmediate)
  }
  const other = await RawClient.open(listener)
  t.after(() => other.close())
  await other.settled(other.request(get('/small')))
  assert.ok(other.frames().some(({ payload }) => String(payload) === 'small'))
})
