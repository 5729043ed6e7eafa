import assert from 'node:assert/strict'
import { test } from 'node:test'
import { allDone } from './all-done.ts'

test('a failure is reported only after all other work has ended', async () => {
  const slow = Promise.withResolvers<void>()
  let isDone = false
  const all = allDone([undefined, Promise.reject(new Error('first')), slow.promise]).catch((error: Error) => {
    isDone = true
    return error.message
  })
  await new Promise(setImmediate)
  assert.equal(isDone, false)
  slow.resolve()
  assert.equal(await all, 'first')
})

test('the promise resolves if nothing fails', async () => {
  await allDone([Promise.resolve(1), undefined])
})
