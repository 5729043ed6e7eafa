import assert from 'node:assert/strict'
import { it } from 'node:test'
import { delayAfter, RetryDelays } from './retry-delays.ts'

const range = { firstMs: 1000, longestMs: 60_000 }

it('each delay is twice the one before, up to the longest, however often it failed', () => {
  const delays = [1, 2, 3, 6, 7, 5000].map((failures) => delayAfter(failures, range))
  assert.deepEqual(delays, [1000, 2000, 4000, 32_000, 60_000, 60_000])
})

it('a key that failed waits for its delay, a success starts anew, and other keys do not wait', () => {
  const delays = new RetryDelays(range)
  assert.equal(delays.noteFailure('a', 0), 1000)
  assert.deepEqual([delays.mustWait('a', 999), delays.mustWait('a', 1000)], [true, false])
  assert.equal(delays.mustWait('b', 999), false)
  assert.equal(delays.noteFailure('a', 1000), 3000)
  delays.noteSuccess('a')
  assert.equal(delays.mustWait('a', 1000), false)
  assert.equal(delays.noteFailure('a', 1000), 2000)
})

it('nobody waits for long after the clock went back', () => {
  const delays = new RetryDelays(range)
  delays.noteFailure('a', 1_000_000)
  assert.equal(delays.mustWait('a', 0), false)
})

it('keys that are not tried any more are forgotten', () => {
  const delays = new RetryDelays(range)
  for (let key = 0; key < 1000; key++) delays.noteFailure(`${key}`, key * 1000)
  assert.ok(delays.size < 130, `${delays.size}`)
})
