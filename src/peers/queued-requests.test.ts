import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../lib/clock.ts'
import { type NodeCondition, type QueuedRequest, QueuedRequests } from './queued-requests.ts'

function open() {
  const clock = new ManualClock()
  const state = { condition: 'unreachable' as NodeCondition, looks: 0 }
  const queue = new QueuedRequests({
    clock,
    look: async () => {
      state.looks++
      return state.condition
    },
  })
  const wait = (nodeID = 'a', changes: Partial<QueuedRequest> = {}) =>
    queue.untilBack({
      nodeID,
      unreachableForMs: 0,
      isKnownUnreachable: false,
      since: clock.now(),
      bytes: 0,
      signal: new AbortController().signal,
      ...changes,
    })
  const advance = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 200) {
      clock.advance(200)
      for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
    }
  }
  return { clock, state, queue, wait, advance }
}

test('all requests for a node share one look, and go on when it is back', async () => {
  const { state, wait, advance } = open()
  const waiting = Array.from({ length: 50 }, () => wait())
  await advance(1000)
  assert.equal(state.looks, 5)
  state.condition = 'back'
  await advance(200)
  assert.deepEqual([...new Set(await Promise.all(waiting))], [true])
})

test('a request waits no longer than half a minute after the node went, or after it came itself', async () => {
  const { clock, wait, advance } = open()
  const early = wait()
  const late = wait('a', { unreachableForMs: 25_000 })
  assert.equal(await wait('a', { unreachableForMs: 30_000 }), false)
  assert.equal(await wait('a', { since: clock.now() - 30_000 }), false)
  await advance(5200)
  assert.equal(await late, false)
  await advance(25_000)
  assert.equal(await early, false)
})

test('what is over the bounds in number or bytes does not wait', async () => {
  const { state, wait, advance } = open()
  const ofOne = Array.from({ length: 500 }, () => wait())
  assert.equal(await wait(), false)
  const ofOther = Array.from({ length: 256 }, () => wait('b', { bytes: 64 * 1024 }))
  assert.equal(await wait('c', { bytes: 1 }), false)
  const rest = Array.from({ length: 244 }, () => wait('c'))
  assert.equal(await wait('d'), false)
  state.condition = 'back'
  await advance(200)
  assert.deepEqual([...new Set(await Promise.all([...ofOne, ...ofOther, ...rest]))], [true])
  const again = wait('a', { bytes: 16 * 1024 * 1024 })
  await advance(200)
  assert.equal(await again, true, 'those that went on count no more')
})

test('a client that disconnects is not waited for', async () => {
  const { wait, advance } = open()
  const gone = new AbortController()
  const waiting = wait('a', { signal: gone.signal })
  gone.abort()
  await advance(400)
  assert.equal(await waiting, false)
})

test('a request goes on when its node turns out to be away, because another may take its sandbox over', async () => {
  const { state, wait, advance } = open()
  const [unsure, sure] = [wait(), wait('a', { isKnownUnreachable: true })]
  state.condition = 'away'
  await advance(200)
  assert.equal(await unsure, true)
  state.condition = 'back'
  await advance(200)
  assert.equal(await sure, true)
})
