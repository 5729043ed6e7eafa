/** The nodes of a cluster over one database: membership, ownership, and forgetting a node. */
import assert from 'node:assert/strict'
import { idleLoad } from '../../../test/support/idle-load.ts'
import { isUnreachable, newNodeRunID, unreachableAfterMs } from '../../core/cluster/node.ts'
import type { JoiningNode } from '../../core/cluster/node-store.ts'
import type { Owned } from '../../core/cluster/owner-store.ts'
import { defaultTeamLimits } from '../../core/team/team.ts'
import type { Volume } from '../../core/volume/volume.ts'
import { isAppError } from '../../lib/app-error.ts'
import { newUUID } from '../../lib/ids.ts'
import type { Stores } from '../stores.ts'
import {
  aBuild,
  aSandbox,
  aSnapshot,
  claimPaused,
  haveTemplate,
  insertPaused,
  insertSandboxIn,
  insertTeam,
  insertTemplate,
  storePaused,
  time,
} from './rows.ts'
import { aVolume } from './volumes.ts'

export type PairTest = (
  behaviour: string,
  body: (one: Stores, other: Stores) => Promise<void>,
) => Promise<void>

export function nodeSuite(pairTest: PairTest): void {
  pairTest('a node that joined is listed with its own data', joinedNodesAreListed)
  pairTest('what a node says of its machine is listed anew when its process is another', newProcessIsListed)
  pairTest('the id of a node that lives is not taken by another process', livingNodesKeepTheirID)
  pairTest(
    'a process that was killed is followed at once by one at the same place',
    killedProcessesAreFollowed,
  )
  pairTest('a node that leaves is away at once, and since then', nodesThatLeaveAreUnreachableSinceThen)
  pairTest('a node that was drained stays drained until it is undrained', drainedNodesStaySo)
  pairTest('one node of an older version may sweep what arrives', olderNodesMaySweep)
  pairTest('what is shared is what the first one wrote', firstValueIsShared)
  pairTest('any node finds the owner of a sandbox, a build and a volume', ownersAreFound)
  pairTest('only a node that is away can be forgotten, and its sandboxes end with it', forgottenNodesLoseAll)
  pairTest('a create of a forgotten node is given up, and its key is free', createsOfForgottenNodesAreGivenUp)
  pairTest('a resume of a forgotten node does not take effect any more', lateResumesOfForgottenNodes)
  pairTest('a volume of a forgotten node can be recovered on the node that has its disk', lostVolumesComeBack)
  pairTest('lost volumes go with their team', lostVolumesGoWithTheirTeam)
}

export const aNode = (nodeID: string, changes: Partial<JoiningNode> = {}): JoiningNode => ({
  nodeID,
  runID: newUUID(),
  address: `${nodeID}:7000`,
  facts: {
    version: '1.0.0',
    isolation: 'container',
    cpu: { architecture: 'x86_64', family: '6', model: '85', modelName: 'A CPU', features: ['avx'] },
    cpuCount: 4,
    memoryMB: 8192,
  },
  load: idleLoad,
  ...changes,
})

async function joinedNodesAreListed({ nodes: one }: Stores, { nodes: other }: Stores): Promise<void> {
  const node = aNode('one')
  assert.equal(await one.join(node), true)
  const [listed, ...more] = await other.list()
  assert.deepEqual(more, [])
  const { silentMs, statusChangedAt, ...rest } = listed!
  assert.deepEqual(rest, { ...node, status: 'ready' })
  assert.ok(silentMs >= 0 && silentMs < 60_000, `silent for ${silentMs} ms`)
  assert.ok(statusChangedAt > 0)
  const load = { ...node.load, sandboxes: 7 }
  assert.equal((await one.renew({ ...node, load }))?.status, 'ready')
  assert.equal((await other.find('one'))?.load.sandboxes, 7)
  const { databaseTime } = (await one.renew(node))!
  assert.ok(Math.abs(databaseTime - Date.now()) < 60_000, `the database says ${databaseTime}`)
}

async function newProcessIsListed({ nodes: one }: Stores, { nodes: other }: Stores): Promise<void> {
  const node = aNode('one')
  await one.join(node)
  await one.join(aNode('two'))
  const versions = async () => (await other.list()).map(({ facts }) => facts.version)
  assert.deepEqual(await versions(), ['1.0.0', '1.0.0'])
  await one.leave(node)
  await one.join(aNode('one', { facts: { ...node.facts, version: '2.0.0' } }))
  assert.deepEqual(await versions(), ['2.0.0', '1.0.0'])
  assert.deepEqual(await versions(), ['2.0.0', '1.0.0'])
}

async function livingNodesKeepTheirID({ nodes: one }: Stores, { nodes: other }: Stores): Promise<void> {
  const node = aNode('one')
  const copy = aNode('one')
  assert.equal(await one.join(node), true)
  assert.equal(await other.join(copy), false)
  assert.equal(await other.renew(copy), undefined)
  await other.leave(copy)
  assert.equal((await one.renew(node))?.status, 'ready')
  await one.leave(node)
  assert.equal(await other.join(copy), true)
  assert.equal(await one.renew(node), undefined)
}

async function killedProcessesAreFollowed({ nodes: one }: Stores, { nodes: other }: Stores): Promise<void> {
  const killed = aNode('one', { runID: newNodeRunID('here') })
  assert.equal(await one.join(killed), true)
  assert.equal(await other.join(aNode('one', { runID: newNodeRunID('there') })), false)
  assert.equal(await other.join(aNode('one', { runID: newNodeRunID('her') })), false)
  const next = aNode('one', { runID: newNodeRunID('here'), address: 'elsewhere:7000' })
  assert.equal(await one.join(next), true)
  assert.equal((await other.find('one'))?.address, 'elsewhere:7000')
  assert.equal(await one.renew(killed), undefined)
}

async function nodesThatLeaveAreUnreachableSinceThen(
  { nodes: one }: Stores,
  { nodes: other }: Stores,
): Promise<void> {
  const node = aNode('one')
  await one.join(node)
  await one.leave(node)
  const left = (await other.find('one'))!
  assert.ok(isUnreachable(left))
  assert.ok(left.silentMs < unreachableAfterMs + 60_000, `silent for ${left.silentMs} ms`)
}

async function drainedNodesStaySo({ nodes: one }: Stores, { nodes: other }: Stores): Promise<void> {
  const node = aNode('one')
  await one.join(node)
  assert.equal(await other.setStatus('one', 'draining'), true)
  assert.equal(await other.setStatus('none', 'draining'), false)
  assert.equal((await one.renew(node))?.status, 'draining')
  await one.leave(node)
  await one.join(aNode('one'))
  assert.equal((await other.find('one'))?.status, 'draining')
}

async function olderNodesMaySweep({ nodes: one }: Stores, { nodes: other }: Stores): Promise<void> {
  const node = aNode('one')
  assert.equal(await other.allKeepArriving(), true)
  await one.join({ ...node, facts: { ...node.facts, keepsArriving: true } })
  assert.equal(await other.allKeepArriving(), true)
  await other.join(aNode('other'))
  assert.equal(await other.allKeepArriving(), false)
}

async function firstValueIsShared({ nodes: one }: Stores, { nodes: other }: Stores): Promise<void> {
  assert.equal(await one.share('colour', 'red'), 'red')
  assert.equal(await other.share('colour', 'blue'), 'red')
}

async function ownersAreFound(one: Stores, other: Stores): Promise<void> {
  const { teamID } = await insertTeam(one)
  const { sandboxID } = await insertSandboxIn(one, teamID, 'running')
  const { templateID } = await insertTemplate(one)
  const ready = aBuild(templateID)
  const waiting = aBuild(templateID, { status: 'waiting' })
  await one.templates.insertBuild(ready, ['default'])
  await other.templates.insertBuild(waiting, ['default'])
  const volume = aVolume(teamID)
  await other.volumes.insert(volume, 10)
  const { owners } = other
  const nodeOf = async (kind: Owned['kind'], id: string) => (await owners.ownerOf({ kind, id }))?.nodeID
  assert.equal(await nodeOf('sandbox', sandboxID), 'one')
  assert.equal(await nodeOf('build', ready.buildID), 'one')
  assert.equal(await nodeOf('template', templateID), 'other')
  assert.equal(await nodeOf('volume', volume.volumeID), 'other')
  assert.equal(await nodeOf('sandbox', 'unknown'), undefined)
  const ended = await insertSandboxIn(one, teamID, 'ended')
  assert.equal(await nodeOf('sandbox', ended.sandboxID), undefined)
  assert.equal(await nodeOf('log', ended.sandboxID), 'one')
  for (const tag of ['default', ready.buildID]) {
    const located = await owners.locateBuild(templateID, tag)
    assert.deepEqual([located?.buildID, located?.nodeID], [ready.buildID, 'one'])
  }
  assert.equal(await owners.locateBuild(templateID, 'none'), undefined)
  assert.deepEqual(await owners.readyBuildsOf('one'), [ready.buildID])
  assert.deepEqual(await owners.readyBuildsOf('other'), [])
  assert.equal(await owners.giveBuild(waiting.buildID, 'one', 'third'), false)
  assert.equal(await owners.giveBuild(ready.buildID, 'one', 'other'), false)
  assert.equal(await owners.giveBuild(waiting.buildID, 'other', 'one'), true)
  assert.equal(await nodeOf('build', waiting.buildID), 'one')
  assert.equal(await owners.giveBuild(waiting.buildID, 'one', 'other'), true)
  assert.equal((await owners.findSandbox(sandboxID))?.teamID, teamID)
  assert.deepEqual(await owners.sandboxesOfTeam(teamID, ['unknown', sandboxID]), [sandboxID])
  assert.deepEqual(await owners.sandboxesOfTeam('another', [sandboxID]), [])
  assert.deepEqual(await owners.countUnfinished(teamID, ['one', 'none']), { sandboxes: 1, builds: 0 })
  await insertSandboxIn(other, teamID, 'paused')
  const own = await insertTemplate(one, { teamID })
  await other.templates.insertBuild(aBuild(own.templateID, { status: 'building' }), ['default'])
  assert.deepEqual(await owners.countUnfinished(teamID, ['other']), { sandboxes: 1, builds: 1 })
  assert.deepEqual(await owners.countUnfinished(teamID, ['one', 'other']), { sandboxes: 2, builds: 1 })
  assert.deepEqual(await owners.countUnfinished('another', ['one', 'other']), { sandboxes: 0, builds: 0 })
}

async function forgottenNodesLoseAll(one: Stores, other: Stores): Promise<void> {
  const { teamID } = await insertTeam(one)
  const node = aNode('one')
  await one.nodes.join(node)
  const lost = await insertSandboxIn(one, teamID, 'running')
  const remaining = await insertSandboxIn(other, teamID, 'running')
  const killed = await insertSandboxIn(one, teamID, 'running')
  const { sandboxID, runID } = killed
  await one.sandboxes.transition({ sandboxID, runID, from: ['running'] }, 'killing', { endReason: 'timeout' })
  const { templateID } = await insertTemplate(one)
  const build = aBuild(templateID)
  await one.templates.insertBuild(build, ['default'])
  await one.volumes.insert(aVolume(teamID, { name: 'mine' }), 10)
  assert.equal(await other.nodes.forget('one', time, 0), undefined, 'it lives')
  await one.nodes.leave(node)
  assert.equal(await other.nodes.forget('one', time, 600_000), undefined, 'it has only just left')
  assert.deepEqual(await other.nodes.forget('one', time, 0), { sandboxes: 1, builds: 1, volumes: 1 })
  assert.equal(await other.nodes.forget('one', time, 0), undefined, 'it is gone')
  const { state, endReason, endedAt } = (await one.sandboxes.find(lost.sandboxID))!
  assert.deepEqual([state, endReason, endedAt], ['ended', 'lost', time])
  const ended = (await one.sandboxes.find(sandboxID))!
  assert.deepEqual([ended.state, ended.endReason], ['ended', 'timeout'], 'it was not lost')
  assert.equal((await other.sandboxes.find(remaining.sandboxID))?.state, 'running')
  assert.equal((await one.templates.findBuild(build.buildID))?.status, 'error')
  assert.equal(await one.nodes.renew(node), undefined)
  const [event] = await one.events.list(
    { teamID, sandboxID: lost.sandboxID },
    { order: 'desc', offset: 0, limit: 1 },
  )
  assert.equal(event?.type, 'killed')
}

async function createsOfForgottenNodesAreGivenUp(one: Stores, other: Stores): Promise<void> {
  const { teamID } = await insertTeam(one)
  const node = aNode('one')
  await one.nodes.join(node)
  await other.nodes.join(aNode('other'))
  await haveTemplate(one)
  const claim = { key: 'mine', requestHash: 'hash', attemptKey: undefined }
  const insert = async (stores: Stores) => {
    const sandbox = aSandbox(teamID)
    return { ...sandbox, ...(await stores.sandboxes.insertWithinLimits(sandbox, defaultTeamLimits, claim)) }
  }
  const begun = await insert(one)
  await one.nodes.leave(node)
  assert.deepEqual(await other.nodes.forget('one', time, 0), { sandboxes: 0, builds: 0, volumes: 0 })
  const row = await one.sandboxes.find(begun.sandboxID)
  assert.deepEqual([row?.state, row?.endReason], ['ended', 'create_failed'])
  assert.equal((await insert(other)).inserted, true)
  // Its process died when the insert was on its way.
  const late = aSandbox(teamID)
  await one.sandboxes.insertWithinLimits(late, defaultTeamLimits, { ...claim, key: 'late' })
  assert.equal(await other.nodes.endLateCreates(time), 1)
  const lateRow = await one.sandboxes.find(late.sandboxID)
  assert.deepEqual([lateRow?.state, lateRow?.endReason], ['ended', 'create_failed'])
  const live = aSandbox(teamID)
  await other.sandboxes.insertWithinLimits(live, defaultTeamLimits)
  assert.equal(await other.nodes.endLateCreates(time), 0, 'its node lives')
}

/** The statement was on its way to the database when its process died. */
async function lateResumesOfForgottenNodes(one: Stores, other: Stores): Promise<void> {
  const team = await insertTeam(one)
  const node = aNode('one')
  await one.nodes.join(node)
  const paused = await insertPaused(one, team.teamID, aSnapshot())
  await storePaused(one, paused, { at: time, needs: null })
  await one.nodes.leave(node)
  await other.nodes.forget('one', time, 0)
  const late = await one.sandboxes.resumeWithinLimits(paused, team.limits, { runID: 'late' })
  assert.deepEqual(late, { resumed: undefined })
  assert.equal((await one.sandboxes.find(paused.sandboxID))?.state, 'paused')
  assert.equal(await claimPaused(other, paused.sandboxID, 'taken'), true)
}

async function lose(one: Stores, other: Stores, teamID: string, name: string): Promise<Volume> {
  const node = aNode('one')
  await one.nodes.join(node)
  const volume = aVolume(teamID, { name })
  await one.volumes.insert(volume, 10)
  const ready = await one.volumes.markReady(volume.volumeID)
  await one.volumes.insert(aVolume(teamID, { name: 'half made' }), 10)
  await one.nodes.leave(node)
  assert.equal((await other.nodes.forget('one', time, 0))?.volumes, 2)
  return ready!
}

async function lostVolumesComeBack(one: Stores, other: Stores): Promise<void> {
  const { teamID } = await insertTeam(one)
  const { state, ...volume } = await lose(one, other, teamID, 'mine')
  const { volumeID } = volume
  const lost = { ...volume, nodeID: 'one', lostAt: time, foundAt: null }
  assert.deepEqual(await other.lostVolumes.list(), [lost])
  assert.deepEqual(await other.volumes.list(teamID), [])
  assert.equal(await one.lostVolumes.noteFound('unknown', 5), undefined)
  assert.deepEqual(await one.lostVolumes.noteFound(volumeID, 5), { ...lost, foundAt: 5 })
  assert.equal((await other.lostVolumes.noteFound(volumeID, 6))?.nodeID, 'one', 'the other has a copy')
  await other.lostVolumes.noteMissing(new Set())
  await one.lostVolumes.noteMissing(new Set([volumeID]))
  assert.equal((await one.lostVolumes.find(volumeID))?.foundAt, 5)
  await one.lostVolumes.noteMissing(new Set())
  assert.equal((await other.lostVolumes.noteFound(volumeID, 7))?.nodeID, 'other', 'the disk was moved there')
  const what: Owned = { kind: 'lost volume', id: volumeID }
  assert.equal((await one.owners.ownerOf(what))?.nodeID, 'other')
  await one.volumes.insert(aVolume(teamID, { name: 'mine' }), 10)
  await assert.rejects(other.lostVolumes.recover(volumeID, 'mine'), (error) =>
    isAppError(error, 'already_exists'),
  )
  assert.equal((await one.lostVolumes.list()).length, 1)
  assert.equal(await other.lostVolumes.recover(volumeID, 'mine again'), true)
  assert.equal(await other.lostVolumes.recover(volumeID, 'mine again'), false)
  const recovered = { ...volume, name: 'mine again', state }
  assert.deepEqual(
    [await other.volumes.find(volumeID), await one.volumes.find(volumeID)],
    [recovered, undefined],
  )
  assert.deepEqual(await one.lostVolumes.list(), [])
  assert.equal((await one.owners.ownerOf(what))?.nodeID, 'other', 'a repeated request goes there too')
}

async function lostVolumesGoWithTheirTeam(one: Stores, other: Stores): Promise<void> {
  const { teamID } = await insertTeam(one)
  const { volumeID } = await lose(one, other, teamID, 'mine')
  assert.deepEqual(await other.teams.deleteUnused(teamID), { deleted: true })
  assert.deepEqual(await one.lostVolumes.list(), [])
  assert.equal(await one.lostVolumes.recover(volumeID, 'mine'), false)
}
