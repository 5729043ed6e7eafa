import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseChallenge } from './registry-auth.ts'

test('the ways in which a registry asks for a password are distinguished', () => {
  assert.deepEqual(parseChallenge('Basic realm="x"'), { scheme: 'basic', values: { realm: 'x' } })
  assert.deepEqual(
    parseChallenge('bearer Realm="https://a/b?c=d",service=s, scope="repository:a/b:pull,push"'),
    {
      scheme: 'bearer',
      values: { realm: 'https://a/b?c=d', service: 's', scope: 'repository:a/b:pull,push' },
    },
  )
  assert.equal(parseChallenge('Basic realm="a, b", Bearer realm="https://c"')?.scheme, 'bearer')
  assert.equal(parseChallenge('Bearer realm="https://c", Basic')?.values.realm, 'https://c')
  assert.deepEqual(parseChallenge('Bearer realm="a\\"b"')?.values, { realm: 'a"b' })
  for (const none of [undefined, '', 'Negotiate', 'Bearer', 'Digest realm="Basic"'])
    assert.equal(parseChallenge(none), undefined)
})
