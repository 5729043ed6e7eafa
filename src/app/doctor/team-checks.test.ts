import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { NodeShares } from '../../contract/rest/shares.ts'
import { judgeShares } from './team-checks.ts'

const mebibyte = 1024 * 1024
const now = Date.parse('2026-11-18T12:00:00.000Z')
const share = (teamID: string, used: number, fair: number, above = 0) => ({
  teamID,
  usedBytes: used * mebibyte,
  fairBytes: fair * mebibyte,
  aboveBytes: above * mebibyte,
})
const resource = (...teams: ReturnType<typeof share>[]) => ({ freeBytes: 1e9, startBytes: 5e8, teams })
const quiet: NodeShares = {
  nodeID: 'one',
  memory: resource(share('a', 10, 100), share('b', 20, 100)),
  disk: resource(),
  frozen: [],
  acts: [],
}
const judge = (changes: Partial<NodeShares>) =>
  judgeShares({ ...quiet, ...changes }, (teamID) => `team-${teamID}`, now)
const act = (act: NodeShares['acts'][number]['act'], minutesAgo: number, sandboxID?: string) => {
  const at = new Date(now - minutesAgo * 60_000).toISOString()
  return {
    guard: 'memory' as const,
    ...{ act, teamID: 'a', why: 'Because.', firstAt: at, lastAt: at, count: 3 },
    ...(sandboxID !== undefined && { sandboxID }),
  }
}

test('the doctor is content with teams that keep to their shares, or take what nobody needs', () => {
  assert.deepEqual(judge({}), {
    status: 'ok',
    text: 'each keeps to its share, and no guard acted in the last hour',
  })
  const lent = judge({ memory: resource(share('a', 150, 100)) })
  assert.deepEqual(
    [lent.status, lent.text],
    ['ok', 'team-a uses more than its share of memory; nobody else needs it now'],
  )
  assert.equal(judge({ acts: [act('frozen', 61, 'i1'), act('continued', 1, 'i1')] }).status, 'ok')
})

test('the doctor names teams that have to give back, and whom the guards touched in the last hour', () => {
  const found = judge({
    memory: resource(share('b', 900, 500, 300.5)),
    disk: resource(share('a', 2000, 500, 1000)),
    connections: { count: 900, max: 4000, perTeam: 1000, teams: [{ teamID: 'b', count: 800 }] },
    frozen: [{ sandboxID: 'i1', teamID: 'a', guard: 'memory', since: new Date(now).toISOString() }],
    acts: [act('frozen', 1, 'i1'), act('frozen', 2, 'i2'), act('ended', 3, 'i3'), act('refused', 4)],
  })
  assert.equal(found.status, 'warn')
  assert.equal(
    found.text,
    'team-b has to give back 301 MiB of memory; team-a has to give back 1000 MiB of disk; team-b has 800 of 1000 connections open; 1 sandbox is frozen; ' +
      '2 sandboxes were frozen in the last hour, of team-a; 1 sandbox was ended in the last hour, of team-a; ' +
      'requests of team-a were refused in the last hour',
  )
  assert.match(found.remedy!, /warren team shares/)
})
