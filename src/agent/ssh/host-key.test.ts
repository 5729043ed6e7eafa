import assert from 'node:assert/strict'
import { createPrivateKey, createPublicKey, sign, verify } from 'node:crypto'
import { test } from 'node:test'
import ssh2 from 'ssh2'
import { hostKeyOf } from './host-key.ts'

test('each of 400 keys can be read, also those whose bytes begin with zeros', () => {
  let withZero = 0
  for (let count = 0; count < 400; count++) {
    const parsed = ssh2.utils.parseKey(hostKeyOf(`token ${count}`))
    assert.ok(!(parsed instanceof Error), `key ${count}: ${parsed}`)
    const [key] = [parsed].flat()
    assert.equal(key!.type, 'ssh-ed25519')
    // The type with its length, then the key with its length.
    const blob = key!.getPublicSSH()
    assert.equal(blob.length, 4 + 11 + 4 + 32)
    if (blob[19] === 0) withZero++
    const data = Buffer.from('data')
    const signature = sign(null, data, createPrivateKey(key!.getPrivatePEM()))
    assert.ok(verify(null, data, createPublicKey(key!.getPublicPEM()), signature))
  }
  assert.ok(withZero > 0, 'no key began with a zero')
})

test('a token always has the same key, and another token another one', () => {
  assert.equal(hostKeyOf('one'), hostKeyOf('one'))
  assert.notEqual(hostKeyOf('one'), hostKeyOf('two'))
})
