import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Histogram, Measures } from './measures.ts'

test('a value falls into the first bucket whose upper bound it does not exceed', () => {
  const histogram = new Histogram([1, 2])
  for (const value of [0.5, 1, 1.5, 2, 7]) histogram.observe(value)
  assert.deepEqual([...histogram.counts], [2, 2, 1])
  assert.equal(histogram.sum, 12)
})

test('the same labels mean the same metric, and others another', () => {
  const family = new Measures().counter('made_total', 'How many were made.', ['kind'])
  family.of('a').add()
  family.of('a').add(2)
  family.of('b').add()
  assert.deepEqual(
    family.all().map(({ labels, figure }) => [...labels, figure.value]),
    [
      ['a', 3],
      ['b', 1],
    ],
  )
})
