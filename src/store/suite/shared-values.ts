import assert from 'node:assert/strict'
import type { StoreTest } from './store-test.ts'

export function sharedValueSuite(storeTest: StoreTest): void {
  storeTest('a shared value is what was written last, until it is removed', async ({ sharedValues }) => {
    assert.equal(await sharedValues.read('suite one'), undefined)
    await sharedValues.write('suite one', 'a')
    await sharedValues.write('suite two', 'other')
    await sharedValues.write('suite one', 'b')
    assert.deepEqual(
      [await sharedValues.read('suite one'), await sharedValues.read('suite two')],
      ['b', 'other'],
    )
    await sharedValues.remove('suite one')
    await sharedValues.remove('suite one')
    assert.equal(await sharedValues.read('suite one'), undefined)
  })
}
