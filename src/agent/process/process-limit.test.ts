import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../lib/clock.ts'
import { ProcessLimit } from './process-limit.ts'

test('process ids are short before the limit is reached, and are counted again after a while', () => {
  const clock = new ManualClock()
  let processes = 10
  const limit = new ProcessLimit(1000, () => processes, clock)
  assert.equal(limit.isShort(), false)
  processes = 999
  assert.equal(limit.isShort(), false)
  clock.advance(500)
  assert.equal(limit.isShort(), true)
  processes = 936
  clock.advance(500)
  assert.equal(limit.isShort(), false)
})

test('without a limit process ids are never short', () => {
  assert.equal(new ProcessLimit(Number.POSITIVE_INFINITY).isShort(), false)
})
