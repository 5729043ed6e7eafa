import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Identity } from './identity.ts'

test('a signature is the same as that of clients', () => {
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

test('the user of a request is the name in its header, with its group, whatever the password is', () => {
  const identity = new Identity()
  const as = (text: string) => identity.accountOf(`Basic ${Buffer.from(text).toString('base64')}`)
  for (const text of ['4242:', '4242', '4242:password'])
    assert.deepEqual([as(text).uid, as(text).gid], [4242, 0])
  assert.deepEqual([as('4242:7:').uid, as('4242:7:').gid], [4242, 7])
})

test('a sandbox has an owner after the first init that does not say otherwise', () => {
  const identity = new Identity()
  const owned = [identity.hasOwner]
  for (const request of [{ accessToken: 't', hasOwner: false }, { envVars: {} }]) {
    identity.apply(request)
    owned.push(identity.hasOwner)
  }
  assert.deepEqual(owned, [false, false, true])
})
