import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Identity } from './identity.ts'

test('signs as clients do', () => {
  const identity = new Identity()
  identity.apply({ accessToken: '0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0' })
  assert.equal(
    identity.signatureOf('hello.txt', 'read', 'user', undefined),
    'v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E',
  )
})

test('an empty token matches nothing', () => {
  assert.equal(new Identity().tokenMatches(''), false)
})
