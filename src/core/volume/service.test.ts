import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  addTeam,
  type Fixture,
  failsWith,
  openFixture,
  request,
  turning,
  until,
} from '../../../test/support/domain.ts'
import { connectionLost, failCalls } from '../../../test/support/store-faults.ts'

const at = (name: string, path = '/mnt/data') => ({ volumeMounts: [{ name, path }] })

describe('volumes', () => {
  it('belong to their team, and another team gets the same answer as for unknown ones', async () => {
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

  it('are limited per team, also for requests at the same time', async () => {
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

  it('leave nothing behind if their disk cannot be made', async () => {
    await using fixture = await openFixture()
    const { volumes, team, volumeDisks, stores } = fixture
    volumeDisks.beforeCreated = () => Promise.reject(new Error('no disk'))
    await assert.rejects(volumes.create(team, 'v'), /no disk/)
    assert.deepEqual([volumeDisks.disks.size, await stores.volumes.listAll()], [0, []])
    volumeDisks.beforeCreated = async () => {}
    await volumes.create(team, 'v')
  })

  it('are mounted as the create says, in forks and after a resume too, and then cannot be deleted', async () => {
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
    assert.equal(volumeDisks.acquiredCount, 0)
    await service.kill(team, sandboxID)
    await volumes.delete(team, volumeID)
    assert.equal(volumeDisks.disks.size, 0)
  })

  it('make a create skip the warm pool', async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { volumes, team, service, driver, warm, clock, catalog } = fixture
    await volumes.create(team, 'v')
    warm.keepReady((await catalog.resolve(team, 'base')).build)
    clock.advance(1000)
    await until(async () => driver.world.sandboxes.size === 1)
    const [pooled] = driver.world.sandboxes.keys()
    const { sandboxID } = await service.create(team, request(at('v')))
    assert.equal(driver.world.sandboxes.get(sandboxID)?.spec.mounts?.length, 1)
    assert.ok(warm.owns(pooled!))
  })

  it("make a create boot if the template's memory has no such mount", async () => {
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

  it('are not part of a template: the snapshot of a sandbox with a volume has no memory', async () => {
    await using fixture = await openFixture()
    const { volumes, team, service, driver } = fixture
    await volumes.create(team, 'v')
    const origin = await service.create(team, request(at('v')))
    const { snapshotID } = await service.snapshot(team, origin.sandboxID, { memory: true })
    const { sandboxID } = await service.create(team, request({ template: snapshotID.split(':')[0]! }))
    const { spec } = driver.world.sandboxes.get(sandboxID)!
    assert.deepEqual([spec.fromSnapshot?.memory, spec.mounts], [false, undefined])
  })

  it('cannot be mounted if their disk is missing, and the create leaves nothing behind', async () => {
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
    assert.deepEqual([volumeDisks.acquiredCount, driver.world.sandboxes.size], [0, 0])
  })
})

describe('volumes after a crash', () => {
  const hang = () => new Promise<never>(() => {})

  it('a creation that was cut off is undone, with a disk and without', async () => {
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

  it('a deletion that was cut off is finished, and the volume is not found until then', async () => {
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

  it('a ready volume without a disk and a disk without a row are left alone and logged once', async () => {
    await using fixture = await openFixture()
    const { volumes, team, volumeDisks, logged, stores } = fixture
    const lost = await volumes.create(team, 'lost')
    volumeDisks.disks.delete(lost.volumeID)
    volumeDisks.disks.add('nobodys')
    for (let round = 0; round < 3; round++) await volumes.reconcile()
    assert.deepEqual([...volumeDisks.disks], ['nobodys'])
    assert.deepEqual(await stores.volumes.listAll(), [lost])
    const levels = logged.filter(({ message }) => /volume/i.test(message)).map(({ level }) => level)
    assert.deepEqual(levels, ['error', 'warn'])
    volumeDisks.disks.add(lost.volumeID)
    await volumes.reconcile()
    volumeDisks.disks.delete(lost.volumeID)
    await volumes.reconcile()
    const missing = logged.filter(({ message }) => /disk of a volume is missing/.test(message))
    assert.equal(missing.length, 2, 'a disk that was back in between is missed again')
  })

  it('a volume that this process is still creating does not count as a leftover', async () => {
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

describe('a volume in its turn', () => {
  it('keeps its disk if it was listed as being created and is ready by now', async () => {
    await using fixture = await openFixture()
    const { volumes, team, volumeDisks, storeFaults } = fixture
    const made = Promise.withResolvers<void>()
    const listed = Promise.withResolvers<void>()
    const goOn = Promise.withResolvers<void>()
    volumeDisks.beforeCreated = () => made.promise
    storeFaults.volumes.after = async (method) => {
      if (method !== 'listAll') return
      listed.resolve()
      await goOn.promise
    }
    const creating = volumes.create(team, 'v')
    await until(async () => volumeDisks.disks.size === 1)
    const reconciled = volumes.reconcile()
    await listed.promise
    made.resolve()
    const { volumeID } = await creating
    goOn.resolve()
    await reconciled
    assert.deepEqual([...volumeDisks.disks], [volumeID])
    assert.equal((await volumes.get(team, volumeID)).state, 'ready')
  })

  it('is not reported as one without a disk if it was created between the two lists of a reconcile', async () => {
    await using fixture = await openFixture()
    const { volumes, team, storeFaults, logged } = fixture
    storeFaults.volumes.before = async (method) => {
      if (method !== 'listAll') return
      storeFaults.volumes.before = () => {}
      await volumes.create(team, 'v')
    }
    await volumes.reconcile()
    assert.deepEqual(
      logged.filter(({ level }) => level === 'error' || level === 'warn'),
      [],
    )
  })

  it('is deleted once by all requests at the same time', async () => {
    await using fixture = await openFixture()
    const { volumes, team, volumeDisks } = fixture
    const { volumeID } = await volumes.create(team, 'v')
    let removals = 0
    volumeDisks.beforeRemoved = async () => void removals++
    const ends = await Promise.allSettled([
      volumes.delete(team, volumeID),
      volumes.delete(team, volumeID),
      volumes.deleteAll(team),
    ])
    assert.equal(removals, 1)
    assert.deepEqual(
      ends.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    )
    assert.ok(failsWith('not_found')((ends[1] as PromiseRejectedResult).reason))
  })

  it('is deleted with its team, in whatever state a crash left it', async () => {
    const before = await openFixture()
    await before.volumes.create(before.team, 'ready')
    before.volumeDisks.beforeCreated = () => new Promise<never>(() => {})
    void before.volumes.create(before.team, 'creating')
    await until(async () => before.volumeDisks.disks.size === 2)
    before.volumeDisks.beforeCreated = async () => {}
    await using after = await before.again()
    await after.volumes.deleteAll(after.team)
    assert.deepEqual([after.volumeDisks.disks.size, await after.stores.volumes.listAll()], [0, []])
  })

  it('is not found if it is deleted while its content is opened, and its files are not touched', async () => {
    for (const moment of ['before', 'after'] as const) {
      await using fixture = await openFixture()
      const { volumes, team, volumeDisks } = fixture
      const volume = await volumes.create(team, 'v')
      const useFiles = volumeDisks.useFiles.bind(volumeDisks)
      const remove = () => volumes.delete(team, volume.volumeID)
      if (moment === 'before') volumeDisks.beforeUsed = remove
      else
        volumeDisks.useFiles = (volumeID, work) =>
          useFiles(volumeID, async (files) => {
            await remove()
            return work(files)
          })
      let isUsed = false
      const used = volumes.withFiles(volume.volumeID, volumes.tokenOf(volume), async () => {
        isUsed = true
      })
      await assert.rejects(used, failsWith('not_found'), moment)
      assert.equal(isUsed, false, moment)
    }
  })
})

describe('a volume whose store answers are lost', () => {
  const rows = ({ stores }: Fixture) => stores.volumes.listAll()

  for (const [method, make] of [
    ['insert', undefined],
    ['markReady', undefined],
    ['cancelCreation', 'fail'],
    ['beginDeletion', 'delete'],
    ['remove', 'delete'],
  ] as const) {
    it(`reaches the same result if one answer of ${method} is lost`, async () => {
      await using fixture = await openFixture()
      const { volumes, team, clock, storeFaults, volumeDisks } = fixture
      storeFaults.volumes.after = failCalls(method, 1)
      if (make === 'fail') volumeDisks.beforeCreated = () => Promise.reject(new Error('no disk'))
      const created = turning(clock, volumes.create(team, 'v'))
      if (make === 'fail') await assert.rejects(created, /no disk/)
      else {
        const volume = await created
        assert.deepEqual([volume.state, await rows(fixture)], ['ready', [volume]])
        assert.deepEqual([...volumeDisks.disks], [volume.volumeID])
        if (!make) return
        await turning(clock, volumes.delete(team, volume.volumeID))
      }
      assert.deepEqual([volumeDisks.disks.size, await rows(fixture)], [0, []])
    })
  }

  it('keeps its disk if the answer to its last step never comes and the step took effect', async () => {
    await using fixture = await openFixture()
    const { volumes, team, clock, storeFaults, volumeDisks } = fixture
    storeFaults.volumes.after = failCalls('markReady')
    await assert.rejects(turning(clock, volumes.create(team, 'v')), {
      code: 'unavailable',
      message: /not known whether volume "v" exists now: list the volumes/,
    })
    storeFaults.volumes.after = () => {}
    const [volume] = await volumes.list(team)
    assert.equal(volume?.state, 'ready')
    for (let round = 0; round < 2; round++) await volumes.reconcile()
    assert.deepEqual([...volumeDisks.disks], [volume.volumeID])
    await volumes.withFiles(volume.volumeID, volumes.tokenOf(volume), async () => {})
  })

  it('loses its disk if the answer to its last step never comes and the step took no effect', async () => {
    await using fixture = await openFixture()
    const { volumes, team, clock, storeFaults, volumeDisks } = fixture
    storeFaults.volumes.before = failCalls('markReady')
    await assert.rejects(turning(clock, volumes.create(team, 'v')), failsWith('unavailable'))
    assert.equal(volumeDisks.disks.size, 1)
    storeFaults.volumes.before = () => {}
    await volumes.reconcile()
    assert.deepEqual([volumeDisks.disks.size, await rows(fixture)], [0, []])
    await volumes.create(team, 'v')
  })

  it('keeps its disk if the answer to its deletion never comes, until the deletion has begun', async () => {
    await using fixture = await openFixture()
    const { volumes, team, clock, storeFaults, volumeDisks } = fixture
    const { volumeID } = await volumes.create(team, 'v')
    storeFaults.volumes.after = failCalls('beginDeletion')
    await assert.rejects(turning(clock, volumes.delete(team, volumeID)), failsWith('unavailable'))
    assert.equal(volumeDisks.disks.size, 1)
    storeFaults.volumes.after = () => {}
    await volumes.reconcile()
    assert.deepEqual([volumeDisks.disks.size, await rows(fixture)], [0, []])
  })

  it('does not see its own name as taken if the database carries the first try out late', async () => {
    await using fixture = await openFixture()
    const { volumes, team, clock, storeFaults, stores } = fixture
    let tries = 0
    storeFaults.volumes.before = async (method, args) => {
      if (method !== 'insert') return
      tries++
      if (tries === 1) throw connectionLost()
      // The first try takes effect in the moment of the second.
      if (tries === 2) await stores.volumes.insert(...(args as [never, never]))
    }
    assert.equal((await turning(clock, volumes.create(team, 'v'))).state, 'ready')
  })
})

describe('a failed release of a disk after a start', () => {
  it('ends no sandbox, is tried again, and leaves the volume in use', async () => {
    await using fixture = await openFixture()
    const { volumes, team, service, volumeDisks, driver, logged } = fixture
    const { volumeID } = await volumes.create(team, 'v')
    volumeDisks.beforeReleased = () => Promise.reject(new Error('the device is busy'))
    const { sandboxID } = await service.create(team, request(at('v')))
    assert.ok(driver.world.sandboxes.has(sandboxID))
    assert.equal((await service.get(team, sandboxID)).state, 'running')
    await assert.rejects(volumes.delete(team, volumeID), failsWith('conflict'))
    assert.equal(volumeDisks.acquiredCount, 1)
    assert.ok(logged.some(({ message }) => /could not be released; trying again/.test(message)))
    volumeDisks.beforeReleased = async () => {}
    await volumes.reconcile()
    assert.equal(volumeDisks.acquiredCount, 0)
  })
})
