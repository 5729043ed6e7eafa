/** Rows of paused sandboxes that another node takes over. */
import assert from 'node:assert/strict'
import { layerKey, sandboxKey } from '../../core/object-storage/keys.ts'
import { newUUID } from '../../lib/ids.ts'
import type { Stores } from '../stores.ts'
import { aSnapshot, claimPaused, insertPaused, insertTeam, storePaused, time } from './rows.ts'

const stored = { at: time, needs: { cpu: 'x' } }
/** The name that the Warren which takes over a paused sandbox gives its snapshot. */
const claimant = 'taken'

export async function pausedIsClaimed(one: Stores, other: Stores): Promise<void> {
  const { teamID } = await insertTeam(one)
  const frozen = await insertPaused(one, teamID, aSnapshot({ frozen: true }))
  const paused = await insertPaused(one, teamID, aSnapshot())
  const { sandboxID, runID, snapshot, version } = paused
  const [known] = await one.remoteBytes.listUnstored()
  const unstored = { snapshotName: snapshot!.name, nodeID: 'one', stored: null }
  assert.deepEqual(known, { sandboxID, runID, version, ...unstored })
  assert.deepEqual(await other.remoteBytes.listUnstored(), [])
  const at = { sandboxID, runID, nodeID: 'one' }
  const claim = (seen = {}) => claimPaused(other, sandboxID, claimant, seen)
  assert.equal(await claim(), false, 'the object store does not have it')
  assert.equal(await other.remoteBytes.markSandbox(at, stored), false, 'it is not theirs')
  assert.equal(await one.remoteBytes.markSandbox({ sandboxID, runID: 'an earlier run' }, stored), false)
  assert.equal(await one.remoteBytes.markSandbox(frozen, stored), false, 'its processes are in memory')
  assert.equal(await one.remoteBytes.markSandbox(at, stored), true)
  assert.equal(await claim(), false, 'the object store does not have its template')
  assert.deepEqual(await other.remoteBytes.listSomeStored(), [sandboxKey(at)])
  await storePaused(one, paused, stored)
  assert.deepEqual(await other.remoteBytes.listSomeStored(), [sandboxKey(at), layerKey('sha256:a')])
  assert.deepEqual((await other.remoteBytes.findPaused(sandboxID))?.stored, stored)
  assert.equal(await claim({ runID: 'an earlier run' }), false)
  assert.equal(await claim({ version: version - 1 }), false, 'an earlier version of the row')
  assert.equal(await claim(), true)
  assert.equal(await claim({ nodeID: 'one' }), false, 'its owner is another by now')
  const theirs = (await other.sandboxes.find(sandboxID))!
  assert.deepEqual([theirs.state, theirs.snapshot], ['paused', { ...snapshot, name: claimant }])
  assert.equal(await one.sandboxes.find(sandboxID), undefined)
  assert.deepEqual(await one.remoteBytes.listElsewhere([sandboxID, frozen.sandboxID, 'unknown']), [sandboxID])
}

export async function pausedIsResumedByOwner(one: Stores, other: Stores): Promise<void> {
  const team = await insertTeam(one)
  const paused = await insertPaused(one, team.teamID, aSnapshot())
  const resume = (stores: Stores, runID: string, version = paused.version) =>
    stores.sandboxes.resumeWithinLimits({ ...paused, version }, team.limits, { runID })
  assert.deepEqual(await resume(other, 'theirs'), { resumed: undefined })
  assert.deepEqual(await one.sandboxes.find(paused.sandboxID), paused)
  await storePaused(one, paused, stored)
  assert.deepEqual(await resume(other, 'theirs'), { resumed: undefined }, 'it has to be taken over first')
  await claimPaused(other, paused.sandboxID, claimant)
  assert.deepEqual(await resume(one, 'mine'), { resumed: undefined }, 'its owner is another by now')
  assert.deepEqual(
    await resume(other, 'theirs'),
    { resumed: undefined },
    'the row is of another version by now',
  )
  const { version } = (await other.sandboxes.find(paused.sandboxID))!
  const storedFrom = { runID: paused.runID, ...stored }
  assert.deepEqual(await resume(other, 'theirs', version), {
    resumed: {
      ...paused,
      state: 'resuming',
      runID: 'theirs',
      snapshot: { ...paused.snapshot, name: claimant, storedFrom },
      version: version + 1,
    },
  })
}

export async function rowsThatCameBack(one: Stores, other: Stores): Promise<void> {
  const team = await insertTeam(one)
  const seen = await insertPaused(one, team.teamID, aSnapshot())
  await storePaused(one, seen, stored)
  await claimPaused(other, seen.sandboxID, 'theirs')
  await claimPaused(one, seen.sandboxID, 'mine again')
  const now = (await one.sandboxes.find(seen.sandboxID))!
  assert.deepEqual([now.runID, now.state], [seen.runID, seen.state])
  const changes = { runID: newUUID() }
  assert.deepEqual(await one.sandboxes.resumeWithinLimits(seen, team.limits, changes), { resumed: undefined })
  assert.equal(await one.sandboxes.setSnapshot(seen, aSnapshot({ memory: false })), undefined)
  const at = { ...seen, from: ['paused'] as const }
  assert.equal(await one.sandboxes.transition(at, 'killing', { endReason: 'lost' }), undefined)
  assert.deepEqual(await one.sandboxes.find(seen.sandboxID), now)
}

export async function resumeForgets(one: Stores, other: Stores): Promise<void> {
  const team = await insertTeam(one)
  const row = await insertPaused(one, team.teamID, aSnapshot())
  const { sandboxID } = row
  await storePaused(one, row, stored)
  await one.sandboxes.resumeWithinLimits(row, team.limits, { runID: 'next' })
  assert.equal(await other.remoteBytes.findPaused(sandboxID), undefined, 'it is not paused')
  await one.sandboxes.transition({ sandboxID, runID: 'next', from: ['resuming'] }, 'paused')
  assert.equal((await other.remoteBytes.findPaused(sandboxID))?.stored, null)
  assert.equal(await claimPaused(other, sandboxID, claimant), false)
}
