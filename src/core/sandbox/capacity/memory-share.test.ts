import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { beyondShare } from './memory-share.ts'

describe('the share of a sandbox', () => {
  const use = (sandboxID: string, usedBytes: number, promisedBytes: number) => ({
    ...{ sandboxID, usedBytes, promisedBytes },
  })

  it('is in proportion to its promised memory', () => {
    const uses = [use('large', 500, 800), use('small', 150, 100), use('idle', 0, 100)]
    assert.deepEqual([...beyondShare(uses, { roomBytes: 350, wantedBytes: 0 })], [['small', 50]])
  })

  it('is never more than its promised memory', () => {
    assert.deepEqual(
      [...beyondShare([use('one', 120, 100)], { roomBytes: 1000, wantedBytes: -900 })],
      [['one', 20]],
    )
  })

  it('counts the largest sandboxes as beyond it until enough memory can be taken back, if all grow side by side', () => {
    const equal = ['a', 'b', 'c'].map((name) => use(name, 100, 200))
    const countFor = (wantedBytes: number) => beyondShare(equal, { roomBytes: 30, wantedBytes }).size
    assert.deepEqual([-1, 0, 30, 150].map(countFor), [0, 0, 1, 2])
  })

  it('includes memory that small sandboxes do not use', () => {
    const uses = [use('hog', 900, 1000), use('small', 40, 1000)]
    const beyond = beyondShare(uses, { roomBytes: 0, wantedBytes: 300 })
    assert.deepEqual([...beyond.keys()], ['hog'])
  })
})
