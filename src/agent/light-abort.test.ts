import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LightAbortController } from './light-abort.ts'

test('a call that ends without a reason has the one that Node gives', () => {
  const [light, own] = [new LightAbortController(), new AbortController()]
  light.abort()
  own.abort()
  assert.equal(light.signal.aborted, true)
  assert.deepEqual(
    [light.signal.reason.name, light.signal.reason.message, light.signal.reason.code],
    [own.signal.reason.name, own.signal.reason.message, own.signal.reason.code],
  )
})

test('a call that ends with a reason keeps it', () => {
  const controller = new LightAbortController()
  const reason = new Error('out of time')
  controller.abort(reason)
  assert.equal(controller.signal.reason, reason)
})
