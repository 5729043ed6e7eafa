import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'node:test'
import { gate, openFixture, request, until } from '../../../test/support/domain.ts'
import { FakeLayers } from '../../../test/support/fake-layers.ts'
import type { ArrivingDriver } from '../../drivers/fake/arriving-driver.ts'
import { newFakeWorld } from '../../drivers/fake/fake-world.ts'
import { ManualClock } from '../../lib/clock.ts'
import { MemoryObjectStore } from '../../objects/memory-object-store.ts'
import { ObjectPacks } from '../../objects/packs.ts'
import { sandboxKey } from './keys.ts'

test('an upload that comes late leaves the memory from which another node is loading', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'warren-late-'))
  const clock = new ManualClock()
  const objects = new MemoryObjectStore(clock)
  const [uploads, memory] = [gate(), gate()]
  let [isFrozen, frozenCount] = [true, 0]
  class SlowPacks extends ObjectPacks {
    override async store(...given: Parameters<ObjectPacks['store']>): ReturnType<ObjectPacks['store']> {
      if (isFrozen && ++frozenCount) await uploads.opened
      return super.store(...given)
    }
  }
  const layers = new FakeLayers()
  const objectStorage = { objects, packs: new SlowPacks(objects), layers }
  const open = (nodeID: string) =>
    openFixture({ folder, clock, world: newFakeWorld(), nodeID, arriving: true, ports: { objectStorage } })
  const [one, other] = [await open('one'), await open('other')]
  t.after(async () => {
    memory.open()
    for (const node of [one, other]) {
      await node.objectStorage!.uploader.close()
      await node.service.close()
      await node.stores.close()
    }
    rmSync(folder, { recursive: true, force: true })
  })
  const rows = one.stores.remoteBytes
  const list = rows.listUnstored.bind(rows)
  const pauseOne = async () => {
    const { sandboxID } = await one.service.create(one.team, request({ timeoutMs: 3_600_000 }))
    await one.service.pause(one.team, sandboxID, { memory: true, requireHealthyAgent: false })
    return (await rows.findPaused(sandboxID))!
  }
  rows.listUnstored = async () => []
  const [first, second, migrated] = [await pauseOne(), await pauseOne(), await pauseOne()]
  rows.listUnstored = async () => [first, second, migrated]
  // Two other uploads are under way when the third sandbox of the list is uploaded for a move.
  const round = one.objectStorage!.uploader.run()
  await until(async () => frozenCount === 2)
  rows.listUnstored = list
  isFrozen = false
  await one.objectStorage!.uploader.storeSandbox(migrated)
  assert.ok(await other.objectStorage!.migrator.claim(migrated.sandboxID, { memory: true, from: 'one' }))
  ;(other.driver as ArrivingDriver).beforeFilled = () => memory.opened
  await other.service.connect(other.team, migrated.sandboxID, { timeoutMs: 3_600_000, memory: true })
  uploads.open()
  await round
  assert.ok(objects.objects.has(sandboxKey(migrated)))
  memory.open()
  await until(async () => (await other.service.get(other.team, migrated.sandboxID)).snapshot === null)
})
