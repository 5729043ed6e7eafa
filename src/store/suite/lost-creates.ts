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
  pairTest(
    'a create that was given up before its node inserted it cannot be inserted any more',
    lateInsertsAreRejected,
  )
  pairTest('a sandbox that runs is not given up although the answer was lost', createdIsNotGivenUp)
}

const lostClaim = { key: 'mine', requestHash: 'hash', attemptKey: 'attempt:1' }
const nextClaim = { ...lostClaim, attemptKey: 'attempt:2' }
const lostIn = (teamID: string) => {
  const { key, attemptKey } = lostClaim
  return { teamID, key, attemptKey, nodeID: 'one', at: time }
}

/** A sandbox that `stores` begins to create with the claim. */
async function beginCreate(stores: Stores, teamID: string, claim = lostClaim) {
  const sandbox = aSandbox(teamID)
  await haveTemplate(stores)
  const result = await stores.sandboxes.insertWithinLimits(sandbox, defaultTeamLimits, claim)
  return { sandbox, result }
}

async function lostCreatesAreGivenUp(one: Stores, other: Stores): Promise<void> {
  const { teamID } = await insertTeam(one)
  const { sandbox } = await beginCreate(one, teamID)
  const { sandboxID, runID } = sandbox
  const lost = lostIn(teamID)
  const earlier = { sandboxID, requestHash: 'hash' }
  assert.deepEqual(await other.owners.giveUpCreate({ ...lost, nodeID: 'another node' }), earlier)
  assert.equal((await one.sandboxes.find(sandboxID))?.state, 'creating', 'another node has not lost it')
  // A second call, after an answer of the database that was lost, changes nothing.
  for (const _ of [1, 2]) assert.equal(await other.owners.giveUpCreate(lost), undefined)
  const row = await one.sandboxes.find(sandboxID)
  assert.deepEqual([row?.state, row?.endReason, row?.endedAt], ['ended', 'create_failed', time])
  const late = await one.sandboxes.transition({ sandboxID, runID, from: ['creating'] }, 'running', {})
  assert.equal(late, undefined, 'the node that goes on with it is told')
  assert.equal(await one.sandboxes.saveHandle(sandboxID, runID, { driver: 'd', version: 1, data: {} }), false)
  assert.deepEqual((await beginCreate(other, teamID, nextClaim)).result, { inserted: true })
}

async function lateInsertsAreRejected(one: Stores, other: Stores): Promise<void> {
  const { teamID } = await insertTeam(one)
  assert.equal(await other.owners.giveUpCreate(lostIn(teamID)), undefined)
  assert.deepEqual((await beginCreate(one, teamID)).result, { inserted: false, isGivenUp: true })
  assert.deepEqual((await beginCreate(other, teamID, nextClaim)).result, { inserted: true })
  assert.deepEqual((await beginCreate(one, teamID)).result, { inserted: false, isGivenUp: true })
  await one.sandboxes.prune(time + 1)
  const { result } = await beginCreate(one, teamID)
  assert.deepEqual(result, { inserted: true }, 'both the key and the attempt were forgotten')
}

async function createdIsNotGivenUp(one: Stores, other: Stores): Promise<void> {
  const { teamID } = await insertTeam(one)
  const { sandbox } = await beginCreate(one, teamID)
  const { sandboxID, runID } = sandbox
  await one.sandboxes.transition({ sandboxID, runID, from: ['creating'] }, 'running', {})
  const earlier = { sandboxID, requestHash: 'hash' }
  assert.deepEqual(await other.owners.giveUpCreate(lostIn(teamID)), earlier)
  assert.equal((await one.sandboxes.find(sandboxID))?.state, 'running')
  const { result } = await beginCreate(other, teamID, nextClaim)
  assert.deepEqual(result, { inserted: false, earlier })
}
