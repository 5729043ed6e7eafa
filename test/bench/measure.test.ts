import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Contender, median, percentile, takeTurns, trimmed } from './measure.ts'

const signal = new AbortController().signal
const upTo = (count: number) => Array.from({ length: count }, (_, index) => count - index)

describe('statistics', () => {
  it('takes the middle value, or the mean of the two middle ones', () => {
    assert.equal(median([9, 1, 5]), 5)
    assert.equal(median([4, 1, 3, 2]), 2.5)
    assert.ok(Number.isNaN(median([])))
  })

  it('takes the nearest rank, which is always a sample', () => {
    assert.equal(percentile(upTo(100), 95), 95)
    assert.equal(percentile(upTo(20), 95), 19)
    assert.equal(percentile(upTo(20), 99), 20)
    assert.equal(percentile([7], 50), 7)
  })

  it('cuts the same share off both ends', () => {
    assert.deepEqual(trimmed(upTo(20), 0.05), upTo(19).slice(0, 18).reverse())
    assert.deepEqual(trimmed([3, 1, 2], 0.05), [1, 2, 3])
  })
})

describe('taking turns', () => {
  it('gives each contender one try per round, and the first turn to another one each time', async () => {
    const calls: string[] = []
    const contender = (name: string): Contender => ({
      name,
      sample: async () => ({ run: calls.push(name) }),
    })
    const rows = await takeTurns([contender('a'), contender('b')], { rounds: 2, signal, pauseMs: 0 })
    assert.equal(calls.join(''), 'abbaab')
    assert.deepEqual(
      rows.map(({ name, samples }) => [name, samples]),
      [
        ['a · run', [4, 5]],
        ['b · run', [3, 6]],
      ],
    )
  })

  it('separates failures from measurements', async () => {
    let tries = 0
    const sample = async () => {
      if (++tries === 3) throw new Error('broken pipe')
      return { run: 1 }
    }
    const rows = await takeTurns([{ name: 'a', sample }], { rounds: 3, signal, pauseMs: 0 })
    assert.deepEqual(
      rows.map(({ name, samples, failures }) => ({ name, samples, failures })),
      [
        { name: 'a · run', samples: [1, 1], failures: [] },
        { name: 'a · failed', samples: [], failures: ['broken pipe'] },
      ],
    )
  })

  it('stops between two tries when it is interrupted', async () => {
    const interrupt = new AbortController()
    let tries = 0
    const sample = async () => {
      if (++tries === 2) interrupt.abort(new Error('interrupted'))
      return { run: 1 }
    }
    const turns = takeTurns([{ name: 'a', sample }], { rounds: 9, signal: interrupt.signal, pauseMs: 0 })
    await assert.rejects(turns, /interrupted/)
    assert.equal(tries, 2)
  })
})
