/** Creates that one node was asked for by another, and whose answers did not arrive. */
import assert from 'node:assert/strict'
import { defaultTeamLimits } from '../../core/team/team.ts'
import type { Stores } from '../stores.ts'
import type { PairTest } from './nodes.ts'
import { aSandbox, haveTemplate, insertTeam, time } from './rows.ts'

export function lostCreateSuite(pairTest: PairTest): void {
  pairTest(
    'a create whose answer was lost is given up by another node, and its key is free',
    lostCreatesAreGivenUp,
  )
  pairTest('a sandbox that runs is not given up although the answer was lost', createdIsNotGivenUp)
}

const lostClaim = { key: 'attempt:1', requestHash: 'hash' }

/** A sandbox that `stores` begins to create with the claim. */
async function beginCreate(stores: Stores, teamID: string) {
  const sandbox = aSandbox(teamID)
  await haveTemplate(stores)
  const result = await stores.sandboxes.insertWithinLimits(sandbox, defaultTeamLimits, lostClaim)
  return { sandbox, result }
}

async function lostCreatesAreGivenUp(one: Stores, other: Stores): Promise<void> {
  const { teamID } = await insertTeam(one)
  const { sandbox } = await beginCreate(one, teamID)
  const { sandboxID, runID } = sandbox
  const lost = { teamID, key: lostClaim.key, nodeID: 'one' }
  await other.owners.giveUpCreate({ ...lost, nodeID: 'another node', at: time })
  assert.equal((await one.sandboxes.find(sandboxID))?.state, 'creating', 'another node has not lost it')
  await other.owners.giveUpCreate({ ...lost, at: time })
  const row = await one.sandboxes.find(sandboxID)
  assert.deepEqual([row?.state, row?.endReason, row?.endedAt], ['ended', 'create_failed', time])
  const late = await one.sandboxes.move({ sandboxID, runID, from: ['creating'] }, 'running', {})
  assert.equal(late, undefined, 'the node that goes on with it is told')
  assert.equal(await one.sandboxes.saveHandle(sandboxID, runID, { driver: 'd', version: 1, data: {} }), false)
  assert.deepEqual((await beginCreate(other, teamID)).result, { inserted: true })
  const again = await beginCreate(one, teamID)
  assert.equal(again.result.inserted, false, 'a request that arrives late finds the other sandbox')
}

async function createdIsNotGivenUp(one: Stores, other: Stores): Promise<void> {
  const { teamID } = await insertTeam(one)
  const { sandbox } = await beginCreate(one, teamID)
  const { sandboxID, runID } = sandbox
  const nodeID = 'one'
  await one.sandboxes.move({ sandboxID, runID, from: ['creating'] }, 'running', {})
  await other.owners.giveUpCreate({ teamID, key: lostClaim.key, nodeID, at: time })
  assert.equal((await one.sandboxes.find(sandboxID))?.state, 'running')
  const { result } = await beginCreate(other, teamID)
  assert.deepEqual(result, { inserted: false, earlier: { sandboxID, requestHash: 'hash' } })
  await other.owners.giveUpCreate({ teamID, key: 'unknown', nodeID, at: time })
}
