/** What the operator reads of teams and guards, at the door of any node. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ApiNode, openApiCluster } from '../../../test/support/api-cluster.ts'
import { request } from '../../../test/support/domain.ts'
import type { SharesReport } from '../../contract/rest/shares.ts'

const create = async ({ fixture: { service, team } }: ApiNode): Promise<string> =>
  (await service.create(team, request())).sandboxID

test('what teams use, and what the guards did, is told of every node, its own first; an absent one is named', async () => {
  await using cluster = await openApiCluster()
  const [one, other] = cluster.nodes as [ApiNode, ApiNode]
  const sandboxID = await create(other)
  other.fixture.driver.world.memoryUses.set(sandboxID, 5e6)
  other.fixture.acts.note({
    guard: 'memory',
    act: 'frozen',
    teamID: 'team-alpha',
    sandboxID,
    why: 'Too much.',
  })
  const read = async () => (await (await one.callAsAdmin('GET', '/admin/shares')).json()) as SharesReport
  const both = await read()
  assert.deepEqual(
    both.nodes.map(({ nodeID, memory, acts }) => [
      nodeID,
      memory.teams.map(({ teamID, usedBytes }) => [teamID, usedBytes]),
      acts.map(({ act, why, count }) => [act, why, count]),
    ]),
    [
      ['one', [], []],
      ['other', [['team-alpha', 5e6]], [['frozen', 'Too much.', 1]]],
    ],
  )
  assert.equal(both.missingNodes, undefined)
  cluster.away.add('other')
  const own = await read()
  assert.deepEqual([own.nodes.map(({ nodeID }) => nodeID), own.missingNodes], [['one'], ['other']])
  assert.equal((await one.call('GET', '/admin/shares')).status, 401)
})
