/**
 * A create with an idempotency key may be repeated at a node of another release, which must recognize it. So the hash is of the
 * JSON that the client sent, and neither the schema nor the hash may change between releases.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ajv } from 'ajv'
import { NewSandbox } from '../contract/rest/sandbox.ts'
import { SandboxTokens } from '../core/sandbox/row/tokens.ts'

test('the check of a create leaves its body as the client sent it, with fields that this release does not know', () => {
  const check = new Ajv({ useDefaults: true, strict: false, validateFormats: false }).compile(NewSandbox)
  const bodies = [
    { templateID: 'base' },
    {
      templateID: 'base',
      laterField: { a: 1 },
      network: { laterField: true },
      autoResume: { enabled: true },
    },
  ]
  for (const body of bodies) {
    const sent = JSON.stringify(body)
    assert.ok(check(body), JSON.stringify(check.errors))
    assert.equal(JSON.stringify(body), sent)
  }
})

test('the hash of a request is the same in every release', () => {
  const hash = new SandboxTokens('seed').requestHash('{"templateID":"base"}')
  assert.equal(hash, '19a219d015151894479a33aab4287f247d6f92f8f3af985b883e27bd70a4178b')
})
