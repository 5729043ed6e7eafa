/** The guard of the memory beside sandboxes whose memory still arrives from an object store that does not answer. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { type Fixture, openFixture, request, until } from '../../../../test/support/domain.ts'
import type { ArrivingDriver } from '../../../drivers/fake/arriving-driver.ts'
import { ManualClock } from '../../../lib/clock.ts'
import { MemoryObjectStore } from '../../../objects/memory-object-store.ts'
import { ObjectPacks } from '../../../objects/packs.ts'

const mebibyte = 1024 * 1024
const timed = { timeoutMs: 3_600_000, memory: true }

const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))

/** A machine of 4 GiB: no starts below 1024 MiB, freezes below 512, ends below 256. */
async function openMachine() {
  const clock = new ManualClock()
  const objects = new MemoryObjectStore(clock)
  const layers = { store: async () => {}, fetch: async () => {}, sharedNames: async () => [] }
  const memory = { otherMB: 0 }
  let fixture: Fixture | undefined
  const usedMB = () => {
    const uses = fixture?.driver.world.memoryUses.values() ?? []
    return [...uses].reduce((total, bytes) => total + bytes, 0) / mebibyte
  }
  fixture = await openFixture({
    clock,
    arriving: true,
    admission: { minFreeMemoryMB: 1024 },
    ports: {
      objectStorage: { objects, packs: new ObjectPacks(objects), layers },
      machine: {
        cpuCount: 64,
        memoryMB: 4096,
        availableMemoryMB: async () => 4096 - memory.otherMB - usedMB(),
      },
    },
  })
  const { driver, memoryGuard, service, team, stores } = fixture
  await memoryGuard.look()
  const create = async () => (await service.create(team, request({ timeoutMs: timed.timeoutMs }))).sandboxID
  return {
    fixture,
    memory,
    create,
    /** A sandbox that runs, and whose memory does not arrive. */
    async createArriving() {
      const sandboxID = await create()
      await service.pause(team, sandboxID, { memory: true, requireHealthyAgent: false })
      await until(async () => ((await stores.remoteBytes.findPaused(sandboxID))?.stored ?? null) !== null)
      driver.world.snapshots.clear()
      ;(driver as ArrivingDriver).beforeFilled = untilAborted
      await service.connect(team, sandboxID, timed)
      return sandboxID
    },
    use: (sandboxID: string, megabytes: number) =>
      driver.world.memoryUses.set(sandboxID, megabytes * mebibyte),
    async look(afterMs = 200) {
      clock.advance(afterMs)
      await memoryGuard.look()
      for (let turn = 0; turn < 30; turn++) await new Promise((resolve) => setImmediate(resolve))
      for (const id of driver.world.memoryUses.keys())
        if (!driver.world.sandboxes.get(id)?.running) driver.world.memoryUses.delete(id)
    },
    stateOf: async (sandboxID: string) => (await stores.sandboxes.find(sandboxID))?.state,
  }
}

it('a sandbox whose memory still arrives does not keep the guard from pausing another one', async () => {
  const machine = await openMachine()
  await using fixture = machine.fixture
  const arriving = await machine.createArriving()
  const other = await machine.create()
  // Both must give way, the first one before the other.
  machine.memory.otherMB = 3578
  for (const [large, small] of [
    [60, 58],
    [110, 108],
  ] as const) {
    machine.use(arriving, large)
    machine.use(other, small)
    await machine.look()
  }
  for (let time = 0; time < 6; time++) await machine.look(5000)
  assert.equal(await machine.stateOf(other), 'paused')
  assert.equal(await machine.stateOf(arriving), 'running')
  assert.equal(fixture.memoryGuard.counts.ended, 0)
})

it('a sandbox whose memory still arrives goes back to its stored snapshot when memory is used up', async () => {
  const machine = await openMachine()
  await using fixture = machine.fixture
  const arriving = await machine.createArriving()
  machine.use(arriving, 500)
  machine.memory.otherMB = 3400
  for (let time = 0; time < 4; time++) await machine.look()
  await until(async () => (await machine.stateOf(arriving)) !== 'running')
  assert.equal(await machine.stateOf(arriving), 'paused')
  assert.ok((await fixture.stores.remoteBytes.findPaused(arriving))?.stored)
})
