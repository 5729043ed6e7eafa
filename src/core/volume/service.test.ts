import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { addTeam, failsWith, openFixture, request, until } from '../../../test/support/domain.ts'

const at = (name: string, path = '/mnt/data') => ({ volumeMounts: [{ name, path }] })

describe('volumes', () => {
  it('belong to their team: others are told what they are told of unknown ones', async () => {
    await using fixture = await openFixture()
    const { volumes, team, service } = fixture
    const other = await addTeam(fixture, 'other')
    const volume = await volumes.create(team, 'mine')
    assert.deepEqual(await volumes.list(team), [volume])
    assert.deepEqual(await volumes.list(other), [])
    const unknown = '00000000-0000-4000-8000-000000000000'
    for (const volumeID of [volume.volumeID, unknown, '../x', '']) {
      const expected = {
        code: 'not_found',
        message: `Volume "${volumeID}" not found: the team has none with this id`,
      }
      await assert.rejects(volumes.get(other, volumeID), expected)
      await assert.rejects(volumes.delete(other, volumeID), expected)
    }
    for (const name of ['mine', 'nothing']) {
      const expected = { code: 'not_found', message: `Volume "${name}" not found` }
      await assert.rejects(service.create(other, request(at(name))), expected)
    }
  })

  it('keep to the limit of the team, also when asked for at once', async () => {
    await using fixture = await openFixture()
    const { volumes, team } = fixture
    const all = await Promise.allSettled(
      Array.from({ length: 9 }, (_, index) => volumes.create(team, `v${index}`)),
    )
    assert.equal(all.filter(({ status }) => status === 'fulfilled').length, 3)
    assert.equal((await volumes.list(team)).length, 3)
    assert.equal(fixture.volumeDisks.disks.size, 3)
    await assert.rejects(volumes.create(team, 'more'), failsWith('limit_reached'))
  })

  it('leave nothing behind when their disk cannot be made', async () => {
    await using fixture = await openFixture()
    const { volumes, team, volumeDisks, stores } = fixture
    volumeDisks.beforeCreated = () => Promise.reject(new Error('no disk'))
    await assert.rejects(volumes.create(team, 'v'), /no disk/)
    assert.deepEqual([volumeDisks.disks.size, await stores.volumes.listAll()], [0, []])
    volumeDisks.beforeCreated = async () => {}
    await volumes.create(team, 'v')
  })

  it('are mounted where a create says, in forks and after a resume too, and then cannot be deleted', async () => {
    await using fixture = await openFixture()
    const { volumes, team, service, driver, volumeDisks } = fixture
    const { volumeID } = await volumes.create(team, 'v')
    const { sandboxID } = await service.create(team, request(at('v')))
    const expected = [{ device: `/dev/${volumeID}`, options: 'rw', folder: 'files', path: '/mnt/data' }]
    const mountsOf = (id: string) => driver.world.sandboxes.get(id)?.spec.mounts
    assert.deepEqual(mountsOf(sandboxID), expected)
    const [fork] = await service.fork(team, sandboxID, { timeoutMs: 60_000, count: 1 })
    assert.ok(fork && 'sandbox' in fork)
    assert.deepEqual(mountsOf(fork.sandbox.sandboxID), expected)
    await service.kill(team, fork.sandbox.sandboxID)
    await service.pause(team, sandboxID, { memory: true, requireHealthyAgent: false })
    await assert.rejects(volumes.delete(team, volumeID), {
      code: 'conflict',
      message: new RegExp(`mounted in 1 sandboxes .*${sandboxID}`),
    })
    await service.connect(team, sandboxID, { timeoutMs: 60_000, memory: true })
    assert.deepEqual(mountsOf(sandboxID), expected)
    assert.equal(volumeDisks.held, 0)
    await service.kill(team, sandboxID)
    await volumes.delete(team, volumeID)
    assert.equal(volumeDisks.disks.size, 0)
  })

  it('keep a create away from the warm pool', async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { volumes, team, service, driver, warm, clock, catalog } = fixture
    await volumes.create(team, 'v')
    warm.keep((await catalog.resolve(team, 'base')).build)
    clock.advance(1000)
    await until(async () => driver.world.sandboxes.size === 1)
    const [pooled] = driver.world.sandboxes.keys()
    const { sandboxID } = await service.create(team, request(at('v')))
    assert.equal(driver.world.sandboxes.get(sandboxID)?.spec.mounts?.length, 1)
    assert.ok(warm.holds(pooled!))
  })

  it('keep a create away from memory that knows no such mount', async () => {
    await using fixture = await openFixture()
    const { volumes, team, service, driver } = fixture
    await volumes.create(team, 'v')
    const origin = await service.create(team, request())
    const { snapshotID } = await service.snapshot(team, origin.sandboxID, { memory: true })
    const template = snapshotID.split(':')[0]!
    const { sandboxID } = await service.create(team, request({ template, ...at('v') }))
    const { spec } = driver.world.sandboxes.get(sandboxID)!
    assert.deepEqual([spec.fromSnapshot?.memory, spec.mounts?.length], [false, 1])
  })

  it('are no part of a template: the snapshot of a sandbox with one has no memory of it', async () => {
    await using fixture = await openFixture()
    const { volumes, team, service, driver } = fixture
    await volumes.create(team, 'v')
    const origin = await service.create(team, request(at('v')))
    const { snapshotID } = await service.snapshot(team, origin.sandboxID, { memory: true })
    const { sandboxID } = await service.create(team, request({ template: snapshotID.split(':')[0]! }))
    const { spec } = driver.world.sandboxes.get(sandboxID)!
    assert.deepEqual([spec.fromSnapshot?.memory, spec.mounts], [false, undefined])
  })

  it('whose disk is missing cannot be mounted, and the create leaves nothing', async () => {
    await using fixture = await openFixture()
    const { volumes, team, service, volumeDisks, driver } = fixture
    const lost = await volumes.create(team, 'lost')
    await volumes.create(team, 'there')
    volumeDisks.disks.delete(lost.volumeID)
    const volumeMounts = [
      { name: 'there', path: '/a' },
      { name: 'lost', path: '/b' },
    ]
    await assert.rejects(service.create(team, request({ volumeMounts })), {
      code: 'unavailable',
      message: /Volume "lost" cannot be mounted: its disk is missing/,
    })
    assert.deepEqual([volumeDisks.held, driver.world.sandboxes.size], [0, 0])
  })
})

describe('volumes after a crash', () => {
  const hang = () => new Promise<never>(() => {})

  it('a creation that was cut off is undone, with disk and without', async () => {
    for (const hasDisk of [true, false]) {
      const before = await openFixture()
      before.volumeDisks.beforeCreated = hang
      void before.volumes.create(before.team, 'v')
      await until(async () => (await before.volumeDisks.list()).length === 1)
      if (!hasDisk) before.volumeDisks.disks.clear()
      await using after = await before.again()
      await after.volumes.reconcile()
      assert.deepEqual([after.volumeDisks.disks.size, await after.stores.volumes.listAll()], [0, []])
    }
  })

  it('a deletion that was cut off is finished, and until then the volume is gone for everybody', async () => {
    const before = await openFixture()
    const { volumeID } = await before.volumes.create(before.team, 'v')
    before.volumeDisks.beforeRemoved = hang
    void before.volumes.delete(before.team, volumeID)
    await until(async () => (await before.stores.volumes.find(volumeID))?.state === 'deleting')
    before.volumeDisks.beforeRemoved = async () => {}
    await using after = await before.again()
    await assert.rejects(after.volumes.get(after.team, volumeID), failsWith('not_found'))
    await after.volumes.reconcile()
    assert.deepEqual([after.volumeDisks.disks.size, await after.stores.volumes.listAll()], [0, []])
    await after.volumes.create(after.team, 'v')
  })

  it('a ready volume without a disk and a disk without a row are left alone and told once', async () => {
    await using fixture = await openFixture()
    const { volumes, team, volumeDisks, logged, stores } = fixture
    const lost = await volumes.create(team, 'lost')
    volumeDisks.disks.delete(lost.volumeID)
    volumeDisks.disks.add('nobodys')
    for (let round = 0; round < 3; round++) await volumes.reconcile()
    assert.deepEqual([...volumeDisks.disks], ['nobodys'])
    assert.deepEqual(await stores.volumes.listAll(), [lost])
    const told = logged.filter(({ message }) => /volume/i.test(message)).map(({ level }) => level)
    assert.deepEqual(told, ['error', 'warn'])
  })

  it('what this process is still making is not taken for a leftover', async () => {
    await using fixture = await openFixture()
    const { volumes, team, volumeDisks } = fixture
    const made = Promise.withResolvers<void>()
    volumeDisks.beforeCreated = () => made.promise
    const creating = volumes.create(team, 'v')
    await until(async () => volumeDisks.disks.size === 1)
    await volumes.reconcile()
    made.resolve()
    assert.equal((await creating).state, 'ready')
  })
})
