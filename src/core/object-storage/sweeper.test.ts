import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { type Fixture, gate, openFixture, request, until } from '../../../test/support/domain.ts'
import { FakeLayers } from '../../../test/support/fake-layers.ts'
import { newFakeWorld } from '../../drivers/fake/fake-world.ts'
import { AppError } from '../../lib/app-error.ts'
import { ManualClock } from '../../lib/clock.ts'
import { silentLog } from '../../lib/log.ts'
import { MemoryObjectStore } from '../../objects/memory-object-store.ts'
import { ObjectPacks } from '../../objects/packs.ts'
import { aBuild } from '../../store/suite/rows.ts'
import { layerKey, sandboxKey } from './keys.ts'
import { LogCarrier } from './log-carrier.ts'
import type { RemoteBytesStore } from './remote-bytes-store.ts'
import { RemoteSnapshots } from './remote-snapshots.ts'
import { ObjectSweeper } from './sweeper.ts'
import { Uploader } from './uploader.ts'

const layer = 'sha256:a'
const key = layerKey(layer)
const hour = 3_600_000

/** Two Warrens over one database and one object store, which has a layer that no row has needed for a while. */
async function open(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-sweep-'))
  const clock = new ManualClock()
  const objects = new MemoryObjectStore(clock)
  const packs = new ObjectPacks(objects)
  const layers = {
    fetch: async () => {},
    sharedNames: async (digests: readonly string[]) => [...digests],
    async store(digests: readonly string[]) {
      for (const digest of digests) await packs.store(layerKey(digest), [], {})
    },
  }
  const openNode = (nodeID: string) =>
    openFixture({
      folder: join(folder, nodeID),
      databaseFolder: folder,
      clock,
      world: newFakeWorld(),
      nodeID,
      ports: { objectStorage: { objects, packs, layers } },
    })
  const [one, other] = [await openNode('one'), await openNode('other')]
  t.after(async () => {
    for (const node of [one, other]) {
      await node.objectStorage!.uploader.close()
      await node.service.close()
      await node.stores.close()
    }
    rmSync(folder, { recursive: true, force: true })
  })
  await layers.store([layer])
  clock.advance(2 * hour)
  const build = aBuild('basetemplate', { layers: [layer], createdAt: clock.now() })
  const insertBuild = () => other.stores.templates.insertBuild(build, ['default'])
  const isMarked = async () => (await one.stores.remoteBytes.findStoredBuild(build.buildID)) !== undefined
  return { one, other, clock, objects, packs, insertBuild, isMarked, uploader: other.objectStorage!.uploader }
}

/** The store with some of its methods replaced. */
const storeWith = (store: RemoteBytesStore, changes: Partial<RemoteBytesStore>): RemoteBytesStore =>
  new Proxy(store, {
    get: (target, name) => {
      const method = name as keyof RemoteBytesStore
      return changes[method] ?? (target[method] as (...args: never[]) => unknown).bind(target)
    },
  })

/** Holds the lease whatever others do, as one that is slower than its lease. */
const slowSweeper = (
  { stores, clock }: Fixture,
  objects: MemoryObjectStore,
  changes: Partial<RemoteBytesStore> = {},
) =>
  new ObjectSweeper({
    objects,
    clock,
    log: silentLog,
    leases: { acquire: async () => true, release: async () => {} },
    rows: storeWith(stores.remoteBytes, changes),
  })

test('a layer that a build needs while it is being removed does not count as stored', async (t) => {
  const { one, objects, insertBuild, isMarked, uploader } = await open(t)
  objects.onStep = async (step) => {
    if (step !== 'remove') return
    objects.onStep = () => {}
    await insertBuild()
    await uploader.run()
    assert.equal(await isMarked(), false, 'the object is about to go')
  }
  await one.objectStorage!.sweeper.run()
  assert.equal(objects.objects.has(key), false)
  await uploader.run()
  assert.deepEqual([await isMarked(), objects.objects.has(key)], [true, true])
})

test('a layer that a build needs before its removal is decided stays', async (t) => {
  const { one, objects, insertBuild, isMarked, uploader } = await open(t)
  const rows: Partial<RemoteBytesStore> = {
    async condemn(keys, at) {
      await insertBuild()
      await uploader.run()
      await one.stores.remoteBytes.condemn(keys, at)
    },
  }
  await slowSweeper(one, objects, rows).run()
  assert.deepEqual([await isMarked(), objects.objects.has(key)], [true, true])
  assert.deepEqual(await one.stores.remoteBytes.findCondemned([key]), [])
})

test('while the outcome of a removal is unknown, nobody relies on the object', async (t) => {
  const { one, clock, objects, insertBuild, isMarked, uploader } = await open(t)
  const remove = objects.remove.bind(objects)
  objects.remove = async () => {
    throw new AppError('unavailable', 'The answer was lost.')
  }
  await assert.rejects(one.objectStorage!.sweeper.run(), /answer was lost/)
  objects.remove = remove
  await insertBuild()
  await uploader.run()
  await one.objectStorage!.sweeper.run()
  assert.equal(await isMarked(), false)
  // It arrives late.
  await remove(key)
  await uploader.run()
  assert.equal(await isMarked(), false)
  clock.advance(hour)
  await one.objectStorage!.sweeper.run()
  await uploader.run()
  assert.deepEqual([await isMarked(), objects.objects.has(key)], [true, true])
})

test('later sweeps wait for a sweep that outlives its lease', async (t) => {
  const { one, other, clock, objects, insertBuild, isMarked, uploader } = await open(t)
  const [asked, opened] = [gate(), gate()]
  objects.onStep = async (step) => {
    if (step !== 'remove') return
    objects.onStep = () => {}
    asked.open()
    await opened.opened
  }
  const slow = slowSweeper(one, objects).run()
  await asked.opened
  await insertBuild()
  clock.advance(2 * hour)
  await other.objectStorage!.sweeper.run()
  await uploader.run()
  assert.equal(await isMarked(), false)
  opened.open()
  await slow
  await uploader.run()
  assert.deepEqual([await isMarked(), objects.objects.has(key)], [true, true])
})

test('removals that a node had begun before it crashed are finished by that node alone', async (t) => {
  const { one, other, clock, objects } = await open(t)
  const [mine, theirs] = [one.stores.remoteBytes, other.stores.remoteBytes]
  await mine.condemn([key], clock.now())
  clock.advance(2 * hour)
  await other.objectStorage!.sweeper.run()
  assert.deepEqual(
    await theirs.findCondemned([key]),
    [key],
    'nobody knows whether that node still removes it',
  )
  await one.objectStorage!.sweeper.run()
  assert.deepEqual([await theirs.findCondemned([key]), objects.objects.has(key)], [[], false])
})

test('a late upload leaves the object to the node that has taken the sandbox over', async (t) => {
  const { one, other, objects, packs, clock } = await open(t)
  const { sandboxID } = await one.service.create(one.team, request())
  objects.isGone = true
  await one.service.pause(one.team, sandboxID, { memory: true, requireHealthyAgent: false })
  await one.objectStorage!.uploader.run()
  const [seen] = await one.stores.remoteBytes.listUnstored()
  objects.isGone = false
  await one.objectStorage!.uploader.run()
  await until(async () => (await one.stores.remoteBytes.findPaused(sandboxID))?.stored != null)
  await other.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'one' })
  let isSeen = false
  const late = new Uploader({
    packs,
    clock,
    log: silentLog,
    logs: new LogCarrier(one.logs, silentLog),
    rows: storeWith(one.stores.remoteBytes, {
      findPaused: async (id) => {
        const row = isSeen ? await one.stores.remoteBytes.findPaused(id) : seen
        isSeen = true
        return row
      },
    }),
    layers: new FakeLayers(),
    snapshots: new RemoteSnapshots({
      driver: one.driver,
      snapshots: one.snapshots,
      packs,
      clock: new ManualClock(),
      log: silentLog,
    }),
  })
  await late.storeSandbox(seen!)
  assert.ok(objects.objects.has(sandboxKey(seen!)))
})
