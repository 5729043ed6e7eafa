import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memoryInMB } from './memory-size.ts'

test('memory is read with and without a unit', () => {
  const read = ['4096', '512m', '4g', '4G', '2GiB', '1tb', '2048k', ' 1g '].map(memoryInMB)
  assert.deepEqual(read, [4096, 512, 4096, 4096, 2048, 1_048_576, 2, 1024])
  for (const text of ['', '0', '-1', '1.5g', '4x', 'g', '1e3', '1k', '99999999999'])
    assert.equal(memoryInMB(text), undefined, text)
})
