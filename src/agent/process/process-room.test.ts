import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../lib/clock.ts'
import { ProcessRoom } from './process-room.ts'

test('process ids are short before the limit is reached, and are counted again after a while', () => {
  const clock = new ManualClock()
  let processes = 10
  const room = new ProcessRoom(1000, () => processes, clock)
  assert.equal(room.isShort(), false)
  processes = 999
  assert.equal(room.isShort(), false)
  clock.advance(500)
  assert.equal(room.isShort(), true)
  processes = 936
  clock.advance(500)
  assert.equal(room.isShort(), false)
})

test('without a limit process ids are never short', () => {
  assert.equal(new ProcessRoom(Number.POSITIVE_INFINITY).isShort(), false)
})
