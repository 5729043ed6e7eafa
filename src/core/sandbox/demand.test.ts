import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Demand } from './demand.ts'

function demandAt(...times: number[]): Demand {
  const demand = new Demand()
  for (const time of times) demand.record(time)
  return demand
}

describe('demand', () => {
  it('is what came in the busiest stretch, not the sum', () => {
    const demand = demandAt(0, 100, 200, 5000, 5100, 9000)
    assert.equal(demand.peak(9000, 1000), 3)
    assert.equal(demand.peak(9000, 50), 1)
    assert.equal(demand.peak(9000, 9000), 6)
  })

  it('is forgotten after five minutes', () => {
    const demand = demandAt(0, 1, 2)
    assert.equal(demand.peak(299_999, 1000), 3)
    assert.equal(demand.peak(300_001, 1000), 1)
    assert.equal(demand.peak(300_002, 1000), 0)
  })

  it('takes times that a clock set back left in the future for old ones', () => {
    const demand = demandAt(10_000, 10_001)
    assert.equal(demand.peak(5000, 1000), 0)
  })
})
