import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { divideByTeam, levelOf, noTeam, type ResourceUse } from './team-share.ts'

const use = (name: string, usedBytes: number, soonBytes = usedBytes): ResourceUse => ({
  sandboxID: name,
  teamID: name[0] === '-' ? noTeam : name[0]!,
  usedBytes,
  soonBytes,
})

const divide = (uses: ResourceUse[], usableBytes: number, sharedBytes = usableBytes) =>
  divideByTeam(uses, { sharedBytes, usableBytes })
const beyond = (uses: ResourceUse[], usableBytes: number, sharedBytes = usableBytes) =>
  [...divide(uses, usableBytes, sharedBytes).beyond].map(([name, { bytes }]) => [name, Math.round(bytes)])

describe('the share of a team', () => {
  it('is touched only beyond what all others leave, whatever each was promised', () => {
    assert.deepEqual(beyond([use('a1', 900), use('b1', 300)], 1000), [['a1', 200]])
  })

  it('is everything for a team that is alone, and its largest sandbox gives back first', () => {
    const uses = [use('a1', 600), use('a2', 300), use('a3', 50)]
    assert.deepEqual(beyond(uses, 1000), [])
    assert.deepEqual(beyond(uses, 900), [['a1', 50]])
    assert.deepEqual(beyond(uses, 600), [
      ['a1', 325],
      ['a2', 25],
    ])
  })

  it('is not everything for a team beside sandboxes whose team is not known yet', () => {
    const uses = [use('a1', 400)]
    const { teams } = divideByTeam(uses, { sharedBytes: 1400, usableBytes: 1700, unknownBytes: 2000 })
    assert.deepEqual(
      teams.map(({ aboveBytes }) => aboveBytes),
      [0],
    )
  })

  it('does not grow with the number of a team’s sandboxes', () => {
    const many = Array.from({ length: 50 }, (_, index) => use(`a${index}`, 20))
    const found = beyond([...many, use('b1', 400)], 1000, 900)
    assert.equal(found.length, 50)
    assert.ok(found.every(([name]) => String(name).startsWith('a')))
  })

  it('is never less than an equal part, however fast the team grows', () => {
    assert.deepEqual(beyond([use('a1', 400), use('b1', 440, 2000)], 950, 900), [])
    assert.deepEqual(beyond([use('a1', 400), use('b1', 460, 2000)], 950, 900), [['b1', 1450]])
  })

  it('leaves small teams and small sandboxes alone if there is nothing to share', () => {
    assert.deepEqual(
      beyond([use('a1', 500), use('a2', 60), use('b1', 60), use('c1', 0)], 0).map(([name]) => name),
      ['a1'],
    )
  })

  it('is taken from the team furthest above it first', () => {
    const found = divide([use('a1', 500), use('b1', 450), use('b2', 450), use('c1', 100)], 800)
    assert.deepEqual(
      found.teams.map(({ teamID, aboveBytes }) => [teamID, Math.round(aboveBytes)]),
      [
        ['b', 550],
        ['a', 150],
        ['c', 0],
      ],
    )
    assert.deepEqual([...found.beyond.keys()], ['b1', 'b2', 'a1'])
  })

  it('counts what a team uses outside of sandboxes', () => {
    const other = new Map([['a', 700]])
    const found = divideByTeam([use('a1', 10), use('b1', 200)], { sharedBytes: 800, usableBytes: 800 }, other)
    assert.deepEqual([...found.beyond.keys()], ['a1'])
    assert.deepEqual(found.teams[0], { teamID: 'a', usedBytes: 710, fairBytes: 400, aboveBytes: 110 })
  })

  it('does not exist for sandboxes of no team: they give back first, and make no other share smaller', () => {
    const found = divide([use('-1', 30), use('a1', 500), use('b1', 100)], 1000, 900)
    assert.deepEqual([...found.beyond.keys()], ['-1'])
    assert.deepEqual(
      found.teams.map(({ fairBytes }) => fairBytes),
      [450, 450],
    )
  })
})

describe('the level to which amounts are cut', () => {
  it('leaves small ones whole', () => {
    assert.equal(levelOf([1, 5, 9], 100), Number.POSITIVE_INFINITY)
    assert.equal(levelOf([1, 5, 9], 12), 6)
    assert.equal(levelOf([1, 5, 9], 9), 4)
    assert.equal(levelOf([4, 4], 0), 0)
    assert.equal(levelOf([], 0), Number.POSITIVE_INFINITY)
  })
})
