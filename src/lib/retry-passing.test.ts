import assert from 'node:assert/strict'
import { test } from 'node:test'
import { turning } from '../../test/support/domain.ts'
import { AppError } from './app-error.ts'
import { ManualClock } from './clock.ts'
import { retryPassing } from './retry-passing.ts'

/** Counts the attempts of a step that fails each time after so long. */
async function attemptsAfter(clock: ManualClock, ms: number): Promise<number> {
  let attempts = 0
  const step = async () => {
    attempts++
    clock.advance(ms)
    throw new AppError('unavailable', 'no')
  }
  await assert.rejects(turning(clock, retryPassing(clock, step)), /no/)
  return attempts
}

test('a step that fails at once is tried five times, and one that fails only after a long wait once', async () => {
  const clock = new ManualClock()
  assert.equal(await attemptsAfter(clock, 0), 5)
  assert.equal(await attemptsAfter(clock, 6000), 1)
  assert.equal(await attemptsAfter(clock, 2000), 3)
})
