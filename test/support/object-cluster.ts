/** The set-up of tests of the object store: two Warrens on two machines, over one database and one object store. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { newFakeWorld } from '../../src/drivers/fake/fake-world.ts'
import { ManualClock } from '../../src/lib/clock.ts'
import { MemoryObjectStore } from '../../src/objects/memory-object-store.ts'
import { ObjectPacks } from '../../src/objects/packs.ts'
import { type Fixture, openFixture, request, until } from './domain.ts'
import { FakeLayers } from './fake-layers.ts'

export const wish = { memory: true, requireHealthyAgent: false }
export const timed = { timeoutMs: 60_000, memory: true }

/** Two Warrens on two machines, over one database and one object store. */
export async function openObjectCluster(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-object-storage-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const clock = new ManualClock()
  const objects = new MemoryObjectStore(clock)
  const objectStorage = { objects, packs: new ObjectPacks(objects), layers: new FakeLayers() }
  const open = (nodeID: string, world = newFakeWorld()) =>
    openFixture({
      folder: join(folder, nodeID),
      databaseFolder: folder,
      clock,
      world,
      nodeID,
      ports: { objectStorage },
    })
  const [one, other] = [await open('one'), await open('other')]
  t.after(() => closeNodes(one, other))
  return { one, other, objects, clock, open, layers: objectStorage.layers }
}

/** Leaves the folder, which nodes share. */
export async function closeNodes(...nodes: Fixture[]): Promise<void> {
  for (const { objectStorage, service, stores } of nodes) {
    await objectStorage!.uploader.close()
    await service.close()
    await stores.close()
  }
}

export async function paused({ service, team, driver }: Fixture): Promise<string> {
  const { sandboxID } = await service.create(team, request())
  const inside = driver.world.sandboxes.get(sandboxID)!
  inside.memory.set('m', 'memory')
  inside.files.set('f', 'file')
  await service.pause(team, sandboxID, wish)
  return sandboxID
}

export const contentOf = ({ driver }: Fixture, sandboxID: string) => {
  const inside = driver.world.sandboxes.get(sandboxID)
  return inside && [inside.memory.get('m'), inside.files.get('f')]
}

export const storedOf = async ({ stores }: Fixture, sandboxID: string) =>
  (await stores.remoteBytes.findPaused(sandboxID))?.stored ?? null

export const storedSoon = (node: Fixture, sandboxID: string) =>
  until(async () => (await storedOf(node, sandboxID)) !== null)
