import './fast-base64.ts'
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { base64Decode, base64Encode } from '@bufbuild/protobuf/wire'

suite('fast base64', () => {
  const samples = ['', 'a', 'ab', 'abc', 'żółć 🐇', 'x'.repeat(100_001)]

  test('is what the Protobuf library uses', () => {
    assert.match(
      String(Object.getOwnPropertyDescriptor(Uint8Array.prototype, 'toBase64')?.value),
      /Buffer|native/i,
    )
    const marked = new Uint8Array(3)
    assert.equal(base64Encode(marked), 'AAAA')
  })

  test('turns bytes into text and back', () => {
    for (const sample of samples) {
      const text = base64Encode(Buffer.from(sample))
      assert.equal(text, Buffer.from(sample).toString('base64'))
      assert.equal(Buffer.from(base64Decode(text)).toString(), sample)
    }
  })

  test('a part of a larger buffer is that part only', () => {
    assert.equal(base64Encode(Buffer.from('abcdef').subarray(2, 4)), 'Y2Q=')
  })

  test('takes what the library takes: no padding, other letters, white space', () => {
    for (const text of ['YWJjZA', 'YWJj ZA==', 'YW\nJjZA==']) {
      assert.equal(Buffer.from(base64Decode(text)).toString(), 'abcd')
    }
    assert.deepEqual([...base64Decode('_-8=')], [255, 239])
  })

  test('rejects what is no base64', () => {
    for (const text of ['*', 'YW*j', 'YWJj*', 'Y']) assert.throws(() => base64Decode(text), /invalid base64/)
  })
})
