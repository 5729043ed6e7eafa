import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { CpuShares, parseCpuList } from './cpu-shares.ts'

describe('the CPUs of sandboxes', () => {
  it('are spread so that none is taken twice before all are taken once', () => {
    const shares = new CpuShares([0, 1, 2, 3])
    assert.deepEqual(
      [shares.reserve('a', 2), shares.reserve('b', 2), shares.reserve('c', 1)],
      ['0,1', '2,3', '0'],
    )
    assert.equal(shares.reserve('d', 3), '1,2,3')
  })

  it('are free again after a release', () => {
    const shares = new CpuShares([0, 1])
    shares.reserve('a', 1)
    shares.reserve('b', 1)
    shares.release('a')
    assert.equal(shares.reserve('c', 1), '0')
  })

  it('of sandboxes that an earlier process started are counted', () => {
    const shares = new CpuShares([0, 1, 2])
    shares.adopt('old', '0-1')
    assert.equal(shares.reserve('new', 1), '2')
  })

  it('are not restricted for a sandbox with as many as the machine has', () => {
    assert.equal(new CpuShares([0, 1]).reserve('a', 2), null)
    assert.equal(new CpuShares([]).reserve('a', 1), null)
  })

  it('are read from the kernel’s lists', () => {
    assert.deepEqual(parseCpuList('0-2,5,8-9\n'), [0, 1, 2, 5, 8, 9])
  })
})
