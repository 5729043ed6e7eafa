import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { forever, openBuilds } from '../../../test/support/builds.ts'
import { type Fixture, openFixture, request, turning } from '../../../test/support/domain.ts'
import { failCalls } from '../../../test/support/store-faults.ts'

/** Two Warrens on one database, each with a disk of its own. */
const openOther = (one: Fixture) => openFixture({ nodeID: 'other', folder: one.folder, clock: one.clock })

async function withSnapshot({ service, team }: Fixture): Promise<string> {
  const { sandboxID } = await service.create(team, request())
  const { snapshotID } = await service.snapshot(team, sandboxID, { memory: true })
  await service.kill(team, sandboxID)
  return snapshotID.split(':')[0]!
}

describe('deleting a template through another node', () => {
  it('makes its own node remove the snapshot, without quarantine', async () => {
    await using one = await openFixture({ nodeID: 'one', warm: 1 })
    await using other = await openOther(one)
    const templateID = await withSnapshot(one)
    await other.remover.remove(other.team, templateID)
    assert.equal(one.driver.world.snapshots.size, 1)
    await other.reconciler.run()
    await one.reconciler.run()
    assert.equal(one.driver.world.snapshots.size, 0)
    assert.deepEqual(await one.quarantine.list(), [])
    assert.deepEqual(await one.stores.quarantine.listRemovable('one'), [])
  })

  it('does not remove a snapshot that something else on its node uses', async () => {
    await using one = await openFixture({ nodeID: 'one', warm: 1 })
    await using other = await openOther(one)
    const templateID = await withSnapshot(one)
    const [[name]] = [...one.driver.world.snapshots] as [[string, unknown]]
    const step = { key: 'k', snapshotName: name, layers: null, rootFolder: null, envVars: {} }
    const cached = { ...step, user: 'user', workdir: '/' }
    await one.stores.buildCache.put(one.team.teamID, cached, one.clock.now())
    await other.remover.remove(other.team, templateID)
    await one.reconciler.run()
    assert.deepEqual([...one.driver.world.snapshots.keys()], [name])
    await one.stores.buildCache.remove(await one.stores.buildCache.list())
    await one.reconciler.run()
    assert.equal(one.driver.world.snapshots.size, 0)
  })

  it('makes its own node remove its sandboxes from the warm pool', async () => {
    await using one = await openFixture({ nodeID: 'one', warm: 1 })
    await using other = await openOther(one)
    const templateID = await withSnapshot(one)
    const [build] = await one.stores.templates.listBuilds(templateID, { limit: 1 })
    one.warm.keepReady(build!)
    await other.remover.remove(other.team, templateID)
    assert.ok(one.warm.pooledTemplates().includes(templateID))
    await one.reconciler.run()
    assert.ok(!one.warm.pooledTemplates().includes(templateID))
  })

  it('ends a build in progress on its own node', async () => {
    await using world = await openBuilds()
    world.knobs.runs = forever
    const { templateID } = await world.begin('mine')
    const [signal] = world.signals
    await world.fixture.stores.templates.deleteUnused(templateID)
    await world.builds.reconcile()
    assert.match(String(signal?.reason), /template was deleted/)
    await world.builds.close()
  })
})

describe('deleting a template whose answer is lost', () => {
  it('removes its snapshot at once, and is reported as done', async () => {
    await using fixture = await openFixture()
    const templateID = await withSnapshot(fixture)
    fixture.storeFaults.templates.after = failCalls('deleteUnused', 1)
    await turning(fixture.clock, fixture.remover.remove(fixture.team, templateID))
    assert.equal(fixture.driver.world.snapshots.size, 0)
    assert.equal(await fixture.stores.templates.findByID(templateID), undefined)
  })
})
