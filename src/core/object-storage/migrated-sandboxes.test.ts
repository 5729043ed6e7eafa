/** Whatever happens to a sandbox between nodes, disks and the object store, it has what its client left in it. */

import assert from 'node:assert/strict'
import test from 'node:test'
import {
  contentOf,
  openObjectCluster,
  paused,
  storedSoon,
  timed,
} from '../../../test/support/object-cluster.ts'
import { noAgent } from '../../drivers/driver-fixture.ts'
import { AppError } from '../../lib/app-error.ts'
import { letOthersRun } from '../../lib/let-others-run.ts'
import { openRules } from '../ports/egress.ts'
import { sandboxKey } from './keys.ts'

for (const memory of [true, false]) {
  const kind = memory ? 'with its memory' : 'from its files'
  test(`a resume ${kind} that fails once after its start leaves what is stored, for this node and the next`, async (t) => {
    const { one, other } = await openObjectCluster(t)
    const sandboxID = await paused(one)
    await storedSoon(one, sandboxID)
    await other.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'one' })
    const { initialize } = other.agent
    other.agent.initialize = async () => {
      other.driver.world.sandboxes.get(sandboxID)!.files.set('f', 'newer')
      throw new AppError('internal', 'The agent does not answer.')
    }
    await assert.rejects(other.service.connect(other.team, sandboxID, { ...timed, memory }))
    other.agent.initialize = initialize
    await other.reconciler.run()
    const { state, snapshot } = await other.service.get(other.team, sandboxID)
    assert.deepEqual([state, snapshot?.memory], ['paused', true])
    assert.equal(await one.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'other' }), true)
    await one.service.connect(one.team, sandboxID, timed)
    assert.deepEqual(contentOf(one, sandboxID), ['memory', 'file'])
  })
}

test('a resume without memory that the limits reject does not take the memory', async (t) => {
  const { one, other } = await openObjectCluster(t)
  const sandboxID = await paused(one)
  await storedSoon(one, sandboxID)
  await other.objectStorage!.migrator.claim(sandboxID, { memory: false, from: 'one' })
  const none = { ...other.team, limits: { ...other.team.limits, maxSandboxes: 0 } }
  await assert.rejects(other.service.connect(none, sandboxID, { ...timed, memory: false }), /limit/)
  await other.reconciler.run()
  assert.equal((await other.service.get(other.team, sandboxID)).snapshot?.memory, true)
  await other.service.connect(other.team, sandboxID, timed)
  assert.deepEqual(contentOf(other, sandboxID), ['memory', 'file'])
})

test('a sandbox whose template the object store lacks is not taken over', async (t) => {
  const { one, other } = await openObjectCluster(t)
  const sandboxID = await paused(one)
  await storedSoon(one, sandboxID)
  const { buildID } = await one.service.get(one.team, sandboxID)
  await one.stores.remoteBytes.unmarkBuild(buildID)
  const isMovable = async () =>
    (await other.stores.owners.ownerOf({ kind: 'sandbox', id: sandboxID }))?.isMovable
  assert.equal(await isMovable(), false)
  assert.equal(await other.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'one' }), false)
  await one.reconciler.run()
  await one.service.connect(one.team, sandboxID, timed)
  assert.deepEqual(contentOf(one, sandboxID), ['memory', 'file'])
})

test('a connect that waits while its sandbox leaves and comes back does not take the row for the one it read', async (t) => {
  const { one, other } = await openObjectCluster(t)
  const sandboxID = await paused(one)
  await storedSoon(one, sandboxID)
  const [entered, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  one.faults.before = async (method) => {
    if (method !== 'resumeWithinLimits') return
    one.faults.before = () => {}
    entered.resolve()
    await goOn.promise
  }
  const connecting = one.service.connect(one.team, sandboxID, timed)
  await entered.promise
  await other.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'one' })
  await one.reconciler.run()
  const back = one.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'other' })
  // The row does not come back before the connect is over, so only steps that do not wait for the connect are over by now.
  for (let steps = 0; steps < 100; steps++) await letOthersRun()
  goOn.resolve()
  await assert.rejects(connecting)
  assert.equal(await back, true)
  await one.reconciler.run()
  await one.service.connect(one.team, sandboxID, timed)
  assert.deepEqual(contentOf(one, sandboxID), ['memory', 'file'])
})

test('an object that is not the one that was stored is not taken for the snapshot', async (t) => {
  const { one, other, objects } = await openObjectCluster(t)
  const [mine, another] = [await paused(one), await paused(one)]
  for (const sandboxID of [mine, another]) await storedSoon(one, sandboxID)
  const [key, otherKey] = await Promise.all(
    [mine, another].map(async (id) => sandboxKey((await one.stores.remoteBytes.findPaused(id))!)),
  )
  const whole = objects.objects.get(key!)!
  objects.objects.set(key!, objects.objects.get(otherKey!)!)
  await other.objectStorage!.migrator.claim(mine, { memory: true, from: 'one' })
  await assert.rejects(other.service.connect(other.team, mine, timed), /is not the one that was stored/)
  await other.reconciler.run()
  assert.equal((await other.service.get(other.team, mine)).snapshot?.memory, true)
  objects.objects.set(key!, whole)
  await other.service.connect(other.team, mine, timed)
  assert.deepEqual(contentOf(other, mine), ['memory', 'file'])
})

test('a resume that meets what a forgotten run has left ends it, before another node may start the sandbox', async (t) => {
  const { one, other } = await openObjectCluster(t)
  const sandboxID = await paused(one)
  await storedSoon(one, sandboxID)
  const sizes = { cpuCount: 1, memoryMB: 1, diskMB: 1, egress: openRules }
  await one.driver.start({ sandboxID, runID: 'forgotten', rootFolder: '/root', agent: noAgent, ...sizes })
  await assert.rejects(one.service.connect(one.team, sandboxID, timed), /still paused/)
  assert.equal(one.driver.world.sandboxes.size, 0)
  assert.equal(await other.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'one' }), true)
  await other.service.connect(other.team, sandboxID, timed)
  assert.deepEqual(contentOf(other, sandboxID), ['memory', 'file'])
})
