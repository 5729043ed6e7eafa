import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isAppError } from '../../../lib/app-error.ts'
import { GpuShares } from './gpu-shares.ts'

const gpus = ['a', 'b', 'c'].map((id, index) => ({
  id,
  index: String(index),
  model: 'M',
  isPart: false,
  nodes: [],
}))
const ids = (reserved: { id: string }[]) => reserved.map(({ id }) => id)

describe('GPUs of sandboxes', () => {
  it('belong to one sandbox at a time', () => {
    const shares = new GpuShares(gpus, 1)
    assert.deepEqual(ids(shares.reserve('one', 2)), ['a', 'b'])
    assert.deepEqual([shares.total, shares.free, shares.largest], [3, 1, 3])
    assert.throws(
      () => shares.reserve('two', 2),
      (error) =>
        isAppError(error, 'unavailable') && /1 of this machine's 3 GPUs are free/.test(error.message),
    )
    assert.equal(shares.free, 1)
    shares.release('one')
    assert.deepEqual(ids(shares.reserve('two', 3)), ['a', 'b', 'c'])
  })

  it('are shared by as many sandboxes as the operator allows, the least shared GPU first', () => {
    const shares = new GpuShares(gpus.slice(0, 2), 2)
    assert.deepEqual(ids(shares.reserve('one', 1)), ['a'])
    assert.deepEqual(ids(shares.reserve('two', 1)), ['b'])
    assert.deepEqual(ids(shares.reserve('three', 2)), ['a', 'b'])
    assert.equal(shares.free, 0)
  })

  it('are those that the sandbox had before and no others, where their memory is restored', () => {
    const shares = new GpuShares(gpus, 2)
    assert.deepEqual(ids(shares.reserve('one', 1, ['c'])), ['c'])
    assert.deepEqual(ids(shares.reserve('two', 2, ['b', 'c'])), ['b', 'c'])
    assert.throws(
      () => shares.reserve('three', 2, ['a', 'c']),
      (error) => isAppError(error, 'unavailable') && /other sandboxes have c\. Try again/.test(error.message),
    )
    assert.equal(shares.free, 3)
    shares.release('one')
    assert.deepEqual(ids(shares.reserve('three', 2, ['a', 'c'])), ['a', 'c'])
  })

  it('stay with sandboxes that an earlier process started', () => {
    const shares = new GpuShares(gpus, 1)
    shares.adopt('old', ['a', 'gone'])
    assert.deepEqual([shares.free, ids(shares.reserve('new', 1))], [2, ['b']])
    shares.release('old')
    assert.equal(shares.free, 2)
    shares.forget()
    assert.equal(shares.free, 3)
  })
})
