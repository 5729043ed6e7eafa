import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Demand, inUseMs } from './demand.ts'

const refillMs = 500
const max = 100

function demandAt(...times: number[]): Demand {
  const demand = new Demand(max)
  for (const time of times) demand.record(time, refillMs)
  return demand
}

const every = (ms: number, count: number): number[] => Array.from({ length: count }, (_, at) => at * ms)

describe('demand', () => {
  it('is one if creates come more slowly than the pool refills', () => {
    assert.equal(demandAt(...every(500, 50)).peak(25_000), 1)
  })

  it('is the size of a burst', () => {
    assert.equal(demandAt(...every(0, 60)).peak(0), 60)
  })

  it('is the number that the pool could not refill while creates came one after the other', () => {
    // In 19.8 s the pool refills 39.6 of 100.
    assert.equal(demandAt(...every(200, 100)).peak(20_000), 61)
  })

  it('is that of the highest of several bursts, not the sum, if the pool refills in between', () => {
    const demand = demandAt(0, 0, 0, 60_000, 60_000, 60_000, 60_000, 120_000, 120_000)
    assert.equal(demand.peak(120_000), 4)
  })

  it('is not the sum either, if the pool refilled sooner than expected', () => {
    const demand = demandAt(0, 0, 0)
    demand.recordFull()
    demand.record(1, refillMs)
    demand.record(1, refillMs)
    assert.equal(demand.peak(1), 3)
  })

  it('is remembered for an hour, then the next highest counts', () => {
    const later = inUseMs / 2
    const demand = demandAt(0, 0, 0, later, later)
    assert.equal(demand.peak(inUseMs - 1), 3)
    assert.equal(demand.peak(inUseMs), 2)
    assert.equal(demand.peak(later + inUseMs), 0)
  })

  it('never exceeds the maximum, even with those missing at the next create', () => {
    const demand = demandAt(...every(1, 10_000))
    assert.equal(demand.peak(10_000), max)
    const later = 10_000 + inUseMs
    demand.record(later, refillMs)
    assert.equal(demand.peak(later), 1)
  })

  it('can be lowered, and grows again with the creates that follow', () => {
    const demand = demandAt(0, 0, 0, 0, 0)
    demand.lowerTo(2)
    assert.equal(demand.peak(0), 2)
    demand.record(0, refillMs)
    assert.equal(demand.peak(0), 3)
  })

  it('treats times in the future, which a clock set back leaves, as old ones', () => {
    const demand = demandAt(10_000, 10_001)
    assert.equal(demand.peak(5000), 0)
    demand.record(5000, refillMs)
    assert.equal(demand.peak(5000), 1)
  })
})
