import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  type Fixture,
  failsWith,
  gate,
  openFixture,
  request,
  turning,
} from '../../../../test/support/domain.ts'
import { connectionLost, failCalls } from '../../../../test/support/store-faults.ts'

const day = 24 * 3_600_000

/** A sandbox whose row ended although its snapshot is whole, which is in quarantine. */
async function quarantined(fixture: Fixture): Promise<{ sandboxID: string; name: string }> {
  const { service, team, stores, reconciler, quarantine } = fixture
  const { sandboxID } = await service.create(team, request())
  await service.pause(team, sandboxID, { memory: true, requireHealthyAgent: false })
  const { snapshot, runID } = (await stores.sandboxes.find(sandboxID))!
  await stores.sandboxes.transition({ sandboxID, runID, from: ['paused'] }, 'killing')
  const ended = { endedAt: fixture.clock.now(), endReason: 'lost' as const, snapshot: null }
  await stores.sandboxes.transition({ sandboxID, runID, from: ['killing'] }, 'ended', ended)
  await reconciler.run()
  assert.deepEqual(await quarantine.names(), [snapshot!.name])
  return { sandboxID, name: snapshot!.name }
}

/** Either the sandbox is back with its snapshot, or both are gone: never one without the other. */
async function assertWhole({ stores, driver, quarantine }: Fixture, sandboxID: string, name: string) {
  const row = (await stores.sandboxes.find(sandboxID))!
  assert.equal(driver.world.snapshots.has(name), row.state === 'paused')
  assert.deepEqual(await quarantine.names(), [])
  return row.state
}

describe('a snapshot in quarantine', () => {
  it('is not removed by the operator while it is being given back', async () => {
    await using fixture = await openFixture()
    const { quarantine, faults } = fixture
    const { sandboxID, name } = await quarantined(fixture)
    const reopening = gate()
    faults.before = (method) => (method === 'reopen' ? reopening.opened : undefined)
    const recovered = quarantine.recover(name)
    const removed = quarantine.remove(name)
    removed.catch(() => {})
    await new Promise((resolve) => setImmediate(resolve))
    reopening.open()
    await recovered
    await assert.rejects(removed, failsWith('not_found'))
    assert.equal(await assertWhole(fixture, sandboxID, name), 'paused')
  })

  it('is not given back while it is being removed', async () => {
    await using fixture = await openFixture()
    const { quarantine, driver } = fixture
    const { sandboxID, name } = await quarantined(fixture)
    const removing = gate()
    const removeSnapshot = driver.removeSnapshot.bind(driver)
    driver.removeSnapshot = async (folder) => {
      await removing.opened
      await removeSnapshot(folder)
    }
    const removed = quarantine.remove(name)
    const recovered = quarantine.recover(name)
    recovered.catch(() => {})
    await new Promise((resolve) => setImmediate(resolve))
    removing.open()
    await removed
    await assert.rejects(recovered, failsWith('not_found'))
    assert.equal(await assertWhole(fixture, sandboxID, name), 'ended')
  })

  it('is not removed, even after its days, while it is being given back, nor after', async () => {
    await using fixture = await openFixture()
    const { quarantine, faults, storeFaults, clock, reconciler } = fixture
    const { sandboxID, name } = await quarantined(fixture)
    clock.advance(7 * day)
    storeFaults.quarantine.after = async (method) => {
      if (method !== 'list') return
      storeFaults.quarantine.after = () => {}
      // Listed as due, and given back before its turn comes.
      await quarantine.recover(name)
    }
    await quarantine.reconcile(async () => [])
    assert.equal(await assertWhole(fixture, sandboxID, name), 'paused')
    faults.before = () => {}
    await reconciler.run()
    assert.equal(await assertWhole(fixture, sandboxID, name), 'paused')
  })

  it('is given back once, although the answer is lost', async () => {
    await using fixture = await openFixture()
    const { quarantine, faults, clock } = fixture
    const { sandboxID, name } = await quarantined(fixture)
    faults.after = failCalls('reopen', 1)
    assert.equal((await turning(clock, quarantine.recover(name))).state, 'paused')
    assert.equal(await assertWhole(fixture, sandboxID, name), 'paused')
  })

  it('is not removed after it was given back by a call whose answer never came', async () => {
    await using fixture = await openFixture()
    const { quarantine, faults, clock } = fixture
    const { sandboxID, name } = await quarantined(fixture)
    faults.after = (method) => {
      if (method === 'reopen') faults.before = failCalls('find')
      if (method === 'reopen') throw connectionLost()
    }
    await assert.rejects(turning(clock, quarantine.recover(name)), failsWith('unavailable'))
    faults.after = () => {}
    faults.before = () => {}
    await assert.rejects(quarantine.remove(name), failsWith('not_found'))
    assert.equal(await assertWhole(fixture, sandboxID, name), 'paused')
  })

  it('is removed for good, although the answers are lost', async () => {
    for (const method of ['markForRemoval', 'remove'] as const) {
      await using fixture = await openFixture()
      const { quarantine, storeFaults, clock, stores } = fixture
      const { sandboxID, name } = await quarantined(fixture)
      storeFaults.quarantine.after = failCalls(method, 1)
      await turning(clock, quarantine.remove(name))
      assert.equal(await assertWhole(fixture, sandboxID, name), 'ended', method)
      assert.deepEqual(await stores.quarantine.listRemovable('node'), [], method)
    }
  })

  it('is removed by the reconciler if its removal failed half-way, and cannot be given back', async () => {
    await using fixture = await openFixture()
    const { quarantine, driver, reconciler } = fixture
    const { sandboxID, name } = await quarantined(fixture)
    const removeSnapshot = driver.removeSnapshot.bind(driver)
    driver.removeSnapshot = () => Promise.reject(new Error('the disk is busy'))
    await assert.rejects(quarantine.remove(name), /the disk is busy/)
    await assert.rejects(quarantine.recover(name), failsWith('not_found'))
    driver.removeSnapshot = removeSnapshot
    await reconciler.run()
    assert.equal(await assertWhole(fixture, sandboxID, name), 'ended')
  })

  it('does not replace a sandbox that was restored from another snapshot', async () => {
    await using fixture = await openFixture()
    const { quarantine, driver, service, team } = fixture
    const { sandboxID, name } = await quarantined(fixture)
    const { snapshots } = driver.world
    const older = `${sandboxID}-older`
    snapshots.set(older, snapshots.get(name)!)
    await quarantine.add(older, 'No sandbox, template or build owns it.')
    await quarantine.recover(name)
    await service.connect(team, sandboxID, { timeoutMs: 60_000, memory: true })
    // As if it had not come up yet.
    driver.recover = async () => 'gone'
    await assert.rejects(quarantine.recover(older), failsWith('conflict'))
    assert.ok(driver.world.sandboxes.has(sandboxID))
  })

  it('does not block the removal of others if it cannot be removed', async () => {
    await using fixture = await openFixture()
    const { quarantine, driver, clock } = fixture
    const { name } = await quarantined(fixture)
    driver.world.snapshots.set('other', driver.world.snapshots.get(name)!)
    await quarantine.add('other', 'No sandbox, template or build owns it.')
    clock.advance(7 * day)
    const removeSnapshot = driver.removeSnapshot.bind(driver)
    driver.removeSnapshot = async (folder) => {
      if (folder === name) throw new Error('the disk is busy')
      await removeSnapshot(folder)
    }
    await quarantine.reconcile(async () => [])
    assert.equal(driver.world.snapshots.has('other'), false)
  })
})
