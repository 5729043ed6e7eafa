/** Two Warrens over one database: each sees and changes only what it owns. */
import assert from 'node:assert/strict'
import { type SuiteContext, suite, type TestContext, test } from 'node:test'
import type { Sandbox } from '../../core/sandbox/row/sandbox.ts'
import type { CachedStep } from '../../core/template/build-cache-store.ts'
import type { Stores } from '../stores.ts'
import { arrivingIsReturned, resumingIsReturned } from './arriving.ts'
import { pausedIsClaimed, pausedIsResumedByOwner, resumeForgets, rowsThatCameBack } from './claimed-rows.ts'
import { lostCreateSuite } from './lost-creates.ts'
import { aNode, nodeSuite } from './nodes.ts'
import {
  aBuild,
  aSandbox,
  aSnapshot,
  claimPaused,
  insertPaused,
  insertSandboxIn,
  insertTeam,
  insertTemplate,
  storePaused,
  time,
} from './rows.ts'
import { aVolume } from './volumes.ts'

type Pair = [one: Stores, other: Stores]

export function ownerSuite(
  engine: string,
  openPair: (context: TestContext) => Promise<Pair>,
  options: { skip?: string } = {},
): void {
  const pairTest = (behaviour: string, body: (...pair: Pair) => Promise<void>) =>
    test(behaviour, async (context) => {
      const pair = await openPair(context)
      try {
        await body(...pair)
      } finally {
        for (const stores of pair) await stores.close()
      }
    })
  suite(`two Warrens over ${engine}`, options, (_: SuiteContext) => {
    pairTest('a sandbox is moved and ended by its own Warren only, and listed by all', sandboxesAreOwned)
    pairTest('a build is reconciled, used and swept by its own Warren only', buildsAreOwned)
    pairTest(
      'the deletion of a template by one Warren makes the other remove its snapshots',
      snapshotsAreMarked,
    )
    pairTest('a waiting build belongs to the Warren that starts it', waitingBuildsMigrate)
    pairTest(
      'a volume is deleted by its own Warren only, but all list it and its name is taken',
      volumesAreOwned,
    )
    pairTest('each Warren has cached steps of its own under the same key', cachesAreApart)
    pairTest('a paused sandbox is taken over by one Warren, once the object store has it', pausedIsClaimed)
    pairTest(
      'a paused sandbox with a volume stays with its own Warren, and ends with it',
      volumesKeepSandboxes,
    )
    pairTest(
      'a sandbox whose memory was still arriving when its node was forgotten can be taken over as it was before',
      arrivingIsReturned,
    )
    pairTest(
      'a stored sandbox that was being resumed when its node was forgotten can be taken over as it was before',
      resumingIsReturned,
    )
    pairTest(
      'a sandbox that a drain has paused is known to all until it runs, ends or is to stay paused',
      departures,
    )
    pairTest('a paused sandbox is resumed by its own Warren only', pausedIsResumedByOwner)
    pairTest('a row that was taken and came back is not the row that was read before', rowsThatCameBack)
    pairTest('the record of a stored snapshot is removed when the sandbox is resumed', resumeForgets)
    pairTest('a build is used by all once the object store has it', storedBuildsAreShared)
    pairTest(
      'an object stays marked for removal until each node that is about to remove it is done',
      condemnedByEach,
    )
    pairTest('a lease is held by one Warren until it ends', leasesHaveOneHolder)
    lostCreateSuite(pairTest)
    nodeSuite(pairTest)
  })
}

async function sandboxesAreOwned(one: Stores, other: Stores): Promise<void> {
  const { teamID } = await insertTeam(one)
  const mine = await insertSandboxIn(one, teamID, 'running')
  const { sandboxID, runID } = mine
  const theirs = other.sandboxes
  assert.deepEqual(
    [await theirs.find(sandboxID), await theirs.listUnended(), await theirs.nextEnd('kill')],
    [undefined, [], undefined],
  )
  const filter = { teamID, states: ['running'] } as const
  assert.deepEqual(await theirs.list(filter, { order: 'asc', limit: 10 }), [mine])
  assert.equal(await theirs.count(filter), 1)
  assert.deepEqual(await theirs.listExpired(mine.endAt + 1, 'kill', 10), [])
  assert.equal(await theirs.transition({ sandboxID, runID, from: ['running'] }, 'killing'), undefined)
  assert.equal(await theirs.setEnd({ sandboxID, runID }, time, false), undefined)
  assert.equal(await theirs.saveHandle(sandboxID, runID, { driver: 'd', version: 1, data: {} }), false)
  assert.deepEqual(await one.sandboxes.find(sandboxID), mine)
  assert.deepEqual(await other.teamMetrics.count(0), [])
  assert.deepEqual(await other.teamMetrics.countRunning(), [{ teamID, count: 1 }])
  assert.equal((await other.teamMetrics.countNow(teamID, 0)).concurrentSandboxes, 1)
}

async function volumesAreOwned(one: Stores, other: Stores): Promise<void> {
  const { teamID } = await insertTeam(one)
  const volume = aVolume(teamID, { name: 'same' })
  await one.volumes.insert(volume, 10)
  await one.volumes.markReady(volume.volumeID)
  const theirs = other.volumes
  assert.deepEqual(
    [await theirs.find(volume.volumeID), await theirs.listHere(teamID), await theirs.listAll()],
    [undefined, [], []],
  )
  assert.deepEqual(
    (await theirs.list(teamID)).map(({ volumeID }) => volumeID),
    [volume.volumeID],
  )
  assert.equal(await theirs.beginDeletion(volume.volumeID), undefined)
  await assert.rejects(theirs.insert(aVolume(teamID, { name: 'same' }), 10), /already/)
  assert.equal(await theirs.insert(aVolume(teamID), 1), false)
}

async function leasesHaveOneHolder({ leases: one }: Stores, { leases: other }: Stores): Promise<void> {
  assert.equal(await one.acquire('work', 60_000), true)
  assert.equal(await other.acquire('work', 60_000), false)
  assert.equal(await other.acquire('other work', 60_000), true)
  await other.release('work')
  assert.equal(await other.acquire('work', 60_000), false, "what is another's cannot be given back")
  await one.release('work')
  assert.equal(await other.acquire('work', -60_000), true)
  assert.equal(await one.acquire('work', 60_000), true, 'it has ended')
}

async function buildsAreOwned(one: Stores, other: Stores): Promise<void> {
  const { templateID } = await insertTemplate(one)
  const snapshot = { name: 'kept', memory: false, sandboxID: 'i1' }
  const ready = aBuild(templateID, { layers: ['sha256:a'], snapshot })
  const running = aBuild(templateID, { status: 'building' })
  await one.templates.insertBuild(ready, ['default'])
  await one.templates.insertBuild(running, ['next'])
  assert.deepEqual(await other.templates.listBuildsIn(['building'], time + 1), [])
  assert.equal(await other.templates.transitionBuild(running.buildID, ['building'], 'error', {}), undefined)
  assert.equal(await other.templates.findReadyBuild(templateID, 'default'), undefined)
  assert.deepEqual([await other.templates.listLayers(), await other.templates.listSnapshotNames()], [[], []])
  assert.deepEqual(await one.templates.listBuildsIn(['building'], time + 1), [running])
  assert.deepEqual(await one.templates.findReadyBuild(templateID, 'default'), ready)
  const own = aBuild(templateID)
  await other.templates.insertBuild(own, ['default'])
  assert.equal((await one.templates.findReadyBuild(templateID, 'default'))?.buildID, ready.buildID)
  assert.equal((await other.templates.findReadyBuild(templateID, 'default'))?.buildID, own.buildID)
}

async function snapshotsAreMarked(one: Stores, other: Stores): Promise<void> {
  const { templateID } = await insertTemplate(one)
  const snapshotOf = (name: string) => ({ name, memory: false, sandboxID: 'i1' })
  await one.templates.insertBuild(aBuild(templateID, { snapshot: snapshotOf('theirs') }), ['default'])
  await other.templates.insertBuild(aBuild(templateID, { snapshot: snapshotOf('own') }), ['default'])
  await other.templates.deleteUnused(templateID)
  const { quarantine } = one
  assert.deepEqual(await quarantine.listRemovable('one'), ['theirs'])
  assert.deepEqual(await quarantine.listRemovable('other'), [])
  assert.deepEqual([await quarantine.list(), await quarantine.find('theirs')], [[], undefined])
  await quarantine.remove('theirs')
  assert.deepEqual(await quarantine.listRemovable('one'), [])
  const unchanged = {
    snapshotName: 'kept',
    nodeID: 'one',
    sandboxID: null,
    reason: 'Nothing owns it.',
    since: time,
  }
  await quarantine.insert(unchanged)
  const owner = await other.owners.ownerOf({ kind: 'quarantined', id: 'kept' })
  assert.deepEqual(owner, { nodeID: 'one', isMovable: false })
  assert.equal(await other.owners.ownerOf({ kind: 'quarantined', id: 'none' }), undefined)
}

async function waitingBuildsMigrate(one: Stores, other: Stores): Promise<void> {
  const { templateID } = await insertTemplate(one)
  const { buildID } = aBuild(templateID)
  await one.templates.insertBuild(aBuild(templateID, { buildID, status: 'waiting' }), ['default'])
  assert.ok(await other.templates.transitionBuild(buildID, ['waiting'], 'building', {}))
  assert.equal(await one.templates.transitionBuild(buildID, ['building'], 'error', {}), undefined)
  assert.ok(await other.templates.transitionBuild(buildID, ['building'], 'ready', {}))
}

async function cachesAreApart(one: Stores, other: Stores): Promise<void> {
  const { teamID } = await insertTeam(one)
  const step = (snapshotName: string): CachedStep => ({
    key: 'k',
    snapshotName,
    layers: null,
    rootFolder: null,
    envVars: {},
    user: 'user',
    workdir: '/',
  })
  await one.buildCache.put(teamID, step('mine'), time)
  assert.equal(await other.buildCache.find(teamID, 'k', time), undefined)
  await other.buildCache.put(teamID, step('theirs'), time)
  assert.equal((await one.buildCache.find(teamID, 'k', time))?.snapshotName, 'mine')
  assert.deepEqual(await other.buildCache.listSnapshotNames(), ['theirs'])
  const [use] = await other.buildCache.list()
  assert.deepEqual(await other.buildCache.remove([use!]), [use])
  assert.deepEqual(await one.buildCache.listSnapshotNames(), ['mine'])
}

const stored = { at: time, needs: { cpu: 'x' } }

async function volumesKeepSandboxes(one: Stores, other: Stores): Promise<void> {
  const { teamID } = await insertTeam(one)
  const volume = aVolume(teamID)
  await one.volumes.insert(volume, 10)
  await one.volumes.markReady(volume.volumeID)
  const volumeMounts = [{ volumeID: volume.volumeID, name: volume.name, path: '/mnt' }]
  const bound = await insertPaused(one, teamID, aSnapshot(), {
    options: { ...aSandbox(teamID).options, volumeMounts },
  })
  const free = await insertPaused(one, teamID, aSnapshot())
  for (const row of [bound, free]) await storePaused(one, row, stored)
  const isMovable = async ({ sandboxID }: Sandbox) =>
    (await other.owners.ownerOf({ kind: 'sandbox', id: sandboxID }))?.isMovable
  assert.deepEqual([await isMovable(bound), await isMovable(free)], [false, true])
  assert.equal(await claimPaused(other, bound.sandboxID, 'taken'), false)
  const node = aNode('one')
  await one.nodes.join(node)
  await one.nodes.leave(node)
  assert.deepEqual(await other.nodes.forget('one', time, 0), { sandboxes: 1, builds: 0, volumes: 1 })
  assert.equal((await one.sandboxes.find(bound.sandboxID))?.endReason, 'lost')
  assert.equal((await one.sandboxes.find(free.sandboxID))?.state, 'paused')
}

async function departures(one: Stores, other: Stores): Promise<void> {
  const { teamID, limits } = await insertTeam(one)
  const depart = async () => {
    const { sandboxID, runID, endAt } = await insertSandboxIn(one, teamID, 'running')
    const at = { sandboxID, runID, from: ['running'] as const }
    assert.equal(
      await one.sandboxes.transition({ ...at, endAt: endAt - 1 }, 'pausing', { runUntil: endAt }),
      undefined,
    )
    await one.sandboxes.transition({ ...at, endAt }, 'pausing', { runUntil: endAt })
    const snapshot = aSnapshot()
    await one.sandboxes.transition({ sandboxID, runID, from: ['pausing'] }, 'paused', {
      snapshot,
      endAt: time,
    })
    return { sandboxID, runID, endAt, snapshot }
  }
  const listed = async () => (await other.remoteBytes.listDepartures()).map(({ sandboxID }) => sandboxID)
  const [resumed, killed, stays] = [await depart(), await depart(), await depart()]
  assert.deepEqual((await listed()).sort(), [resumed, killed, stays].map(({ sandboxID }) => sandboxID).sort())
  const { sandboxID, runID, endAt } = resumed
  const versionOf = async (id: string) => (await one.sandboxes.find(id))!.version
  const resume = async (markedUntil: number) => {
    const version = await versionOf(sandboxID)
    return one.sandboxes.resumeWithinLimits({ sandboxID, runID, version, markedUntil }, limits, {
      runID: 'next',
    })
  }
  assert.deepEqual(await resume(endAt - 1), { resumed: undefined })
  assert.ok('resumed' in (await resume(endAt)))
  await one.sandboxes.transition({ sandboxID, runID: 'next', from: ['resuming'] }, 'paused')
  assert.equal((await one.sandboxes.find(sandboxID))?.runUntil, endAt, 'a resume that failed is tried again')
  const again = { sandboxID, runID: 'next', version: await versionOf(sandboxID) }
  await one.sandboxes.resumeWithinLimits(again, limits, { runID: 'last' })
  await one.sandboxes.transition({ sandboxID, runID: 'last', from: ['resuming'] }, 'running')
  await one.sandboxes.transition({ ...killed, endAt: time, from: ['paused'] }, 'killing', {
    endReason: 'killed',
  })
  const snapshot = { ...stays.snapshot, memory: false }
  const stayPaused = async () =>
    one.sandboxes.stayPaused({ ...stays, version: await versionOf(stays.sandboxID) }, snapshot)
  const paused = await stayPaused()
  assert.deepEqual([paused?.runUntil, paused?.snapshot], [null, snapshot])
  assert.equal(await stayPaused(), undefined)
  assert.deepEqual(await listed(), [])
  for (const row of [resumed, killed]) assert.equal((await one.sandboxes.find(row.sandboxID))?.runUntil, null)
}

async function storedBuildsAreShared(one: Stores, other: Stores): Promise<void> {
  const { templateID } = await insertTemplate(one)
  const snapshot = { name: 'kept', memory: false, sandboxID: 'i1' }
  const build = aBuild(templateID, { layers: ['sha256:a'], snapshot })
  const { buildID } = build
  await one.templates.insertBuild(build, ['default'])
  assert.deepEqual(await one.remoteBytes.listUnstoredBuilds(), [
    { buildID, layers: ['sha256:a'], snapshotName: 'kept' },
  ])
  assert.deepEqual(await other.remoteBytes.listUnstoredBuilds(), [])
  assert.equal(await one.remoteBytes.markBuild(buildID, stored), true)
  assert.deepEqual(await other.remoteBytes.findStoredBuild(buildID), stored)
  assert.deepEqual(await other.templates.findReadyBuild(templateID, 'default'), build)
  assert.deepEqual(await other.templates.listSnapshotNames(), ['kept'])
  assert.deepEqual(await other.remoteBytes.listNeeded(), {
    runs: [],
    layers: ['sha256:a'],
    snapshotNames: ['kept'],
  })
  assert.deepEqual(await one.remoteBytes.listUnstoredBuilds(), [])
  assert.deepEqual(await one.remoteBytes.listForeignBuilds(), [])
  assert.deepEqual(await other.remoteBytes.listForeignBuilds(), [
    { buildID, layers: ['sha256:a'], snapshotName: 'kept' },
  ])
  await other.remoteBytes.doubtBuild(buildID, time)
  assert.equal((await other.remoteBytes.listForeignBuilds()).length, 1)
  assert.deepEqual(
    (await one.remoteBytes.listUnstoredBuilds()).map(({ isDoubted }) => isDoubted),
    [true],
  )
  await one.remoteBytes.markBuild(buildID, stored)
  assert.deepEqual(await one.remoteBytes.listUnstoredBuilds(), [])
  await one.remoteBytes.unmarkBuild(buildID)
  assert.deepEqual(await other.remoteBytes.listForeignBuilds(), [])
  assert.equal((await one.remoteBytes.listUnstoredBuilds()).length, 1)
  assert.equal(await other.templates.findReadyBuild(templateID, 'default'), undefined)
}

async function condemnedByEach(
  { remoteBytes: one, ...stores }: Stores,
  { remoteBytes: other, nodes }: Stores,
): Promise<void> {
  await one.condemn(['a', 'b'], time)
  await other.condemn(['b', 'c'], time + 1)
  await one.condemn(['a'], time + 2)
  assert.deepEqual((await one.findCondemned(['a', 'b', 'c', 'd'])).sort(), ['a', 'b', 'c'])
  assert.deepEqual(await one.listCondemned(), [
    { key: 'a', at: time + 2 },
    { key: 'b', at: time },
  ])
  await other.acquit(['a', 'b', 'c'])
  assert.deepEqual((await other.findCondemned(['a', 'b', 'c'])).sort(), ['a', 'b'])
  await one.acquit(['b'])
  const node = aNode('one')
  await stores.nodes.join(node)
  await stores.nodes.leave(node)
  await nodes.forget('one', time, 0)
  assert.deepEqual(await other.findCondemned(['a', 'b']), ['a'])
  assert.deepEqual(await other.listCondemned(), [{ key: 'a', at: time + 2 }])
  await other.condemn(['a'], time + 3)
  await other.acquit(['a'])
  assert.deepEqual(await one.findCondemned(['a']), [])
}
