/** Rows of sandboxes whose memory still arrives from the object store when their node is forgotten. */
import assert from 'node:assert/strict'
import type { NewSandbox } from '../../core/sandbox/row/sandbox.ts'
import { newUUID } from '../../lib/ids.ts'
import type { Stores } from '../stores.ts'
import { aNode } from './nodes.ts'
import { aSandbox, aSnapshot, claimPaused, insertPaused, insertTeam, storePaused, time } from './rows.ts'
import { aVolume } from './volumes.ts'

const stored = { at: time, needs: { cpu: 'x' } }

export async function arrivingIsReturned(one: Stores, other: Stores): Promise<void> {
  const { teamID, limits } = await insertTeam(one)
  const volume = aVolume(teamID)
  await one.volumes.insert(volume, 10)
  await one.volumes.markReady(volume.volumeID)
  const volumeMounts = [{ volumeID: volume.volumeID, name: volume.name, path: '/mnt' }]
  const resume = async (changes: Partial<NewSandbox> = {}) => {
    const paused = await insertPaused(one, teamID, aSnapshot(), changes)
    const { sandboxID, snapshot } = paused
    await storePaused(one, paused, stored)
    const before = (await one.remoteBytes.findPaused(sandboxID))!
    const arriving = { ...snapshot!, arrivesFrom: { runID: paused.runID, ...stored } }
    const runID = newUUID()
    const times = { startedAt: time, endAt: time + 60_000 }
    await one.sandboxes.resumeWithinLimits(paused, limits, { runID, snapshot: arriving, ...times })
    const named = { transitionID: newUUID(), at: time }
    const at = { sandboxID, runID, from: ['resuming'] as const }
    const handle = { driver: 'fake', version: 1, data: {} }
    await one.sandboxes.transition(at, 'running', { handle }, named)
    return { sandboxID, runID, before, snapshot }
  }
  const { sandboxID, before, snapshot } = await resume()
  const running = (await one.sandboxes.find(sandboxID))!
  const arrived = await resume()
  await one.sandboxes.forgetArrival((await one.sandboxes.find(arrived.sandboxID))!)
  const killed = await resume()
  await one.sandboxes.transition({ ...killed, from: ['running'] }, 'killing', { endReason: 'killed' })
  const bound = await resume({ options: { ...aSandbox(teamID).options, volumeMounts } })
  const node = aNode('one')
  await one.nodes.join(node)
  await one.nodes.leave(node)
  assert.deepEqual(await other.nodes.forget('one', time, 0), { sandboxes: 2, builds: 0, volumes: 1 })
  for (const ended of [arrived, killed, bound])
    assert.equal((await one.sandboxes.find(ended.sandboxID))?.state, 'ended')
  const found = (await other.remoteBytes.findPaused(sandboxID))!
  assert.deepEqual(found, { ...before, version: found.version })
  assert.ok(found.version > running.version)
  const row = (await one.sandboxes.find(sandboxID))!
  assert.deepEqual([row.snapshot, row.handle, row.endAt], [snapshot, null, time])
  assert.equal(await one.sandboxes.forgetArrival(running), undefined, 'the run is over')
  const [event] = await one.events.list({ teamID, sandboxID }, { order: 'desc', offset: 0, limit: 1 })
  assert.equal(event?.type, 'paused')
  assert.equal(await claimPaused(other, sandboxID, 'taken'), true)
}

export async function resumingIsReturned(one: Stores, other: Stores): Promise<void> {
  const { teamID, limits } = await insertTeam(one)
  const resume = async (isStored: boolean) => {
    const paused = await insertPaused(one, teamID, aSnapshot())
    if (isStored) await storePaused(one, paused, stored)
    const before = (await one.remoteBytes.findPaused(paused.sandboxID))!
    const changes = { runID: newUUID(), startedAt: time, endAt: time + 60_000 }
    const result = await one.sandboxes.resumeWithinLimits(paused, limits, changes)
    assert.ok('resumed' in result && result.resumed)
    const storedFrom = { storedFrom: { runID: paused.runID, ...stored } }
    assert.deepEqual(result.resumed.snapshot, { ...paused.snapshot, ...(isStored && storedFrom) })
    return { before, resuming: result.resumed, paused }
  }
  const runsOf = async (sandboxID: string) =>
    (await other.remoteBytes.listNeeded()).runs.filter((run) => run.sandboxID === sandboxID)
  const returned = await resume(true)
  const { sandboxID } = returned.paused
  assert.deepEqual(
    new Set(await runsOf(sandboxID)),
    new Set([returned.resuming, returned.paused].map(({ runID }) => ({ sandboxID, runID }))),
  )
  const unstored = await resume(false)
  const undone = await resume(true)
  const { runID } = undone.resuming
  const { snapshot } = undone.paused
  const at = { sandboxID: undone.paused.sandboxID, runID }
  await one.sandboxes.transition({ ...at, from: ['resuming'] }, 'paused', { snapshot: snapshot! })
  assert.deepEqual(await runsOf(at.sandboxID), [at])
  const running = await resume(true)
  const then = { sandboxID: running.paused.sandboxID, runID: running.resuming.runID }
  await one.sandboxes.transition({ ...then, from: ['resuming'] }, 'running', { snapshot: null })
  const node = aNode('one')
  await one.nodes.join(node)
  await one.nodes.leave(node)
  assert.deepEqual(await other.nodes.forget('one', time, 0), { sandboxes: 3, builds: 0, volumes: 0 })
  for (const { paused } of [unstored, undone, running])
    assert.equal((await one.sandboxes.find(paused.sandboxID))?.endReason, 'lost')
  const { name, ...rest } = (await one.sandboxes.find(sandboxID))!.snapshot!
  // The node may come back with what the resume left of its copy.
  assert.notEqual(name, returned.paused.snapshot!.name)
  assert.deepEqual({ ...rest, name: returned.paused.snapshot!.name }, returned.paused.snapshot)
  const found = await other.remoteBytes.findPaused(sandboxID)
  assert.deepEqual(found, { ...returned.before, snapshotName: name, version: found!.version })
  assert.equal(await claimPaused(other, sandboxID, 'taken'), true)
}
