import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { ManualClock } from './clock.ts'
import { Pace } from './pace.ts'

suite('a pace', () => {
  const open = () => {
    const clock = new ManualClock()
    return { clock, pace: new Pace({ bytesPerSecond: 1000, burstBytes: 5000, clock }) }
  }

  test('lets a burst pass, and delays what exceeds it', () => {
    const { pace } = open()
    assert.equal(pace.spend(5000), 0)
    assert.equal(pace.spend(250), 250)
    assert.equal(pace.spend(250), 500)
  })

  test('accumulates with time, and never more than a burst', () => {
    const { clock, pace } = open()
    pace.spend(5000)
    clock.advance(1000)
    assert.equal(pace.spend(1000), 0)
    clock.advance(3_600_000)
    assert.equal(pace.spend(5001), 1)
  })

  test('does not wait longer because a clock is set back', () => {
    const { clock, pace } = open()
    clock.advance(-3_600_000)
    assert.equal(pace.spend(5000), 0)
    clock.advance(100)
    assert.equal(pace.spend(100), 0)
  })
})
