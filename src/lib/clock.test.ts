import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock, waitAtMost } from './clock.ts'

test('a wait for work that ends in time leaves no timer behind', async () => {
  const clock = new ManualClock()
  const work = Promise.withResolvers<void>()
  const waits = [waitAtMost(clock, 30_000, work.promise), waitAtMost(clock, 30_000, work.promise)]
  assert.equal(clock.pendingCount, 2)
  work.resolve()
  await Promise.all(waits)
  assert.equal(clock.pendingCount, 0)
  await assert.rejects(waitAtMost(clock, 30_000, Promise.reject(new Error('failed'))), /failed/)
  assert.equal(clock.pendingCount, 0)
})

test('a wait for work that takes long ends before the work', async () => {
  const clock = new ManualClock()
  const wait = waitAtMost(clock, 30_000, new Promise(() => {}))
  clock.advance(30_000)
  await wait
})
