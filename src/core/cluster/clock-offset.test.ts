import assert from 'node:assert/strict'
import test from 'node:test'
import { clockOffsetMs, clockProblem } from './clock-offset.ts'

test('a clock is wrong by the least difference that explains the answer', () => {
  assert.equal(clockOffsetMs({ askedAt: 5000, databaseTime: 1000, answeredAt: 5010 }), 4000)
  assert.equal(clockOffsetMs({ askedAt: 1000, databaseTime: 5000, answeredAt: 1010 }), -3990)
})

test('a slow answer says nothing about the clock', () => {
  assert.equal(clockOffsetMs({ askedAt: 0, databaseTime: 9000, answeredAt: 10_000 }), 0)
})

test('the operator hears of more than two seconds', () => {
  for (const offset of [undefined, 0, 2000, -2000]) assert.equal(clockProblem(offset), undefined)
  assert.match(clockProblem(2001)!, /^The clock of this machine is 2\.0 s ahead of the clock of the database/)
  assert.match(clockProblem(-61_000)!, /is 61\.0 s behind the clock of the database/)
})
