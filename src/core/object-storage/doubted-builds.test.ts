/** A node that does not find the bytes of a build in the object store may look in the wrong place. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { type Fixture, openFixture, request } from '../../../test/support/domain.ts'
import { openObjectCluster } from '../../../test/support/object-cluster.ts'
import { newFakeWorld } from '../../drivers/fake/fake-world.ts'
import { newUUID } from '../../lib/ids.ts'
import { MemoryObjectStore } from '../../objects/memory-object-store.ts'
import { ObjectPacks } from '../../objects/packs.ts'
import { aNode } from '../../store/suite/nodes.ts'
import { aBuild } from '../../store/suite/rows.ts'
import { buildKey } from './keys.ts'

/** A build of the node `one` with memory, which the object store has. */
async function storedBuild(node: Fixture): Promise<string> {
  const { service, team, driver, objectStorage, stores, snapshots, clock } = node
  const { sandboxID, handle } = await service.create(team, request())
  driver.world.sandboxes.get(sandboxID)!.memory.set('m', 'of the template')
  const buildID = newUUID()
  await snapshots.takeSnapshot(handle!, buildID, { memory: true, afterwards: 'go-on', lasting: true })
  const snapshot = { name: buildID, memory: true, sandboxID }
  const build = aBuild('basetemplate', { buildID, layers: ['sha256:a'], snapshot, createdAt: clock.now() })
  await stores.templates.insertBuild(build, ['default'])
  await objectStorage!.uploader.run()
  assert.ok(await stores.remoteBytes.findStoredBuild(buildID))
  return buildID
}

/** A third node, whose settings name another prefix or bucket. */
async function openAstray(t: TestContext, { one }: { one: Fixture }) {
  const objects = new MemoryObjectStore(one.clock)
  const layers = {
    store: async () => {},
    fetch: async () => {},
    sharedNames: async (names: readonly string[]) => [...names],
  }
  const astray = await openFixture({
    folder: `${one.folder}-astray`,
    databaseFolder: one.folder.replace(/\/one$/, ''),
    clock: one.clock,
    world: newFakeWorld(),
    nodeID: 'astray',
    ports: { objectStorage: { objects, packs: new ObjectPacks(objects), layers } },
  })
  t.after(async () => {
    await astray.objectStorage!.uploader.close()
    await astray.service.close()
    await astray.stores.close()
  })
  return astray
}

const memoryOf = async ({ service, team, driver }: Fixture) => {
  const { sandboxID } = await service.create(team, request())
  return driver.world.sandboxes.get(sandboxID)?.memory.get('m')
}

test('a node with another prefix does not bind a build to its builder, which may be gone', async (t) => {
  const cluster = await openObjectCluster(t)
  const { one, other } = cluster
  const buildID = await storedBuild(one)
  const astray = await openAstray(t, cluster)
  await assert.rejects(memoryOf(astray), /neither on this machine nor in the object store/)
  assert.ok(await other.stores.remoteBytes.findStoredBuild(buildID), 'other nodes find it')
  const node = aNode('one')
  await one.stores.nodes.join(node)
  await one.stores.nodes.leave(node)
  assert.ok(await other.stores.nodes.forget('one', other.clock.now(), 0))
  assert.equal(await memoryOf(other), 'of the template')
})

test('the builder uploads a build again that another node did not find, if the object store lacks it', async (t) => {
  const { one, other, objects } = await openObjectCluster(t)
  const buildID = await storedBuild(one)
  objects.objects.delete(buildKey(buildID))
  await assert.rejects(memoryOf(other), /neither on this machine nor in the object store/)
  assert.deepEqual(
    (await one.stores.remoteBytes.listUnstoredBuilds()).map((build) => build.buildID),
    [buildID],
  )
  await one.objectStorage!.uploader.run()
  assert.equal(await memoryOf(other), 'of the template')
  assert.deepEqual(await one.stores.remoteBytes.listUnstoredBuilds(), [])
})
