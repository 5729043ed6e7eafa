import assert from 'node:assert/strict'
import { test } from 'node:test'
import { allDone } from './all-done.ts'

test('it rejects only when the rest has ended', async () => {
  const slow = Promise.withResolvers<void>()
  let told = false
  const all = allDone([undefined, Promise.reject(new Error('first')), slow.promise]).catch((error: Error) => {
    told = true
    return error.message
  })
  await new Promise(setImmediate)
  assert.equal(told, false)
  slow.resolve()
  assert.equal(await all, 'first')
})

test('it resolves if nothing fails', async () => {
  await allDone([Promise.resolve(1), undefined])
})
