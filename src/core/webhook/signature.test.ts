import assert from 'node:assert/strict'
import { test } from 'node:test'
import { signatureOf } from './signature.ts'

test('a signature is the one that receivers compute according to the documentation', () => {
  // printf '%s' 'secret{"a":"é"}' | sha256sum | xxd -r -p | base64, then + to -, / to _, and no =
  assert.equal(signatureOf('secret', '{"a":"é"}'), 'rhXzw88Z0fo3SQyOTABWumPn2vZThh_meT1bBo2BKuQ')
})
