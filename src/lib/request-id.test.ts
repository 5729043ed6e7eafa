import assert from 'node:assert/strict'
import { test } from 'node:test'
import { delay } from './clock.ts'
import { currentRequestID, onBehalfOf, requestIDOf } from './request-id.ts'

const asking = (id?: string | string[]) => ({ headers: id === undefined ? {} : { 'x-request-id': id } })

test('a request keeps its first id', () => {
  const request = asking()
  const requestID = requestIDOf(request)
  assert.match(requestID, /^[0-9a-f]{16}$/)
  assert.equal(requestIDOf(request), requestID)
  assert.notEqual(requestIDOf(asking()), requestID)
})

test("a client's own id is used if it can be written to a log unchanged", () => {
  assert.equal(requestIDOf(asking('order-17.b')), 'order-17.b')
  for (const bad of ['', 'a b', 'a\n{"level":30}', '<b>', 'x'.repeat(65), ['a', 'b']]) {
    assert.match(requestIDOf(asking(bad as string)), /^[0-9a-f]{16}$/, JSON.stringify(bad))
  }
})

test('work on behalf of a request knows its id, also later, and other work does not', async () => {
  const seen = onBehalfOf('one', async () => {
    await delay(1)
    return currentRequestID()
  })
  assert.equal(currentRequestID(), undefined)
  assert.equal(await seen, 'one')
})
