import assert from 'node:assert/strict'
import { test } from 'node:test'
import { turning } from '../../test/support/domain.ts'
import { AppError } from './app-error.ts'
import { ManualClock } from './clock.ts'
import { retryPassing } from './retry-passing.ts'

/** Counts the attempts of a step that fails each time. */
async function attemptsOf(hasWaited: boolean): Promise<number> {
  const clock = new ManualClock()
  let attempts = 0
  const step = async () => {
    attempts++
    throw new AppError('unavailable', 'no', { hasWaited })
  }
  await assert.rejects(turning(clock, retryPassing(clock, step)), /no/)
  return attempts
}

test('a step that fails at once is tried five times, and one that fails only after a long wait once', async () => {
  assert.deepEqual([await attemptsOf(false), await attemptsOf(true)], [5, 1])
})
