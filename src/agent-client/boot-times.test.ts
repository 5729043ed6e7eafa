import assert from 'node:assert/strict'
import { it } from 'node:test'
import { BootTimes } from './boot-times.ts'

it('without a known boot time, an agent is asked at once', () => {
  assert.equal(new BootTimes().waitMs, 0)
})

it('an agent is left alone for a part of the shortest known boot, however long other boots took', () => {
  const times = new BootTimes()
  for (const ms of [900, 200, 5000]) times.add(ms)
  assert.equal(times.waitMs, 120)
})

it('old boot times do not count, and the wait before the first request is short', () => {
  const times = new BootTimes()
  times.add(10)
  for (let boot = 0; boot < 16; boot++) times.add(60_000)
  assert.equal(times.waitMs, 500)
})
