import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { type Fixture, gate, openFixture, request, until } from '../../../../test/support/domain.ts'
import { FakeLayers } from '../../../../test/support/fake-layers.ts'
import type { ArrivingDriver } from '../../../drivers/fake/arriving-driver.ts'
import { ManualClock } from '../../../lib/clock.ts'
import { MemoryObjectStore } from '../../../objects/memory-object-store.ts'
import { ObjectPacks } from '../../../objects/packs.ts'
import { aNode } from '../../../store/suite/nodes.ts'
import { sandboxKey } from '../../object-storage/keys.ts'
import { patienceMs } from '../../object-storage/patience.ts'
import type { PausedSandbox } from '../../object-storage/remote-bytes-store.ts'
import type { AdmissionSettings } from '../capacity/admission.ts'

const wish = { memory: true, requireHealthyAgent: false }
const page = { order: 'asc', limit: 100, offset: 0 } as const
const timed = { timeoutMs: 3_600_000, memory: true }

async function world(t: TestContext, admission: Partial<AdmissionSettings> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-arrivals-'))
  const clock = new ManualClock()
  const objects = new MemoryObjectStore(clock)
  const layers = new FakeLayers()
  const objectStorage = { objects, packs: new ObjectPacks(objects), layers }
  const node = await openFixture({ folder, clock, arriving: true, admission, ports: { objectStorage } })
  let last = node
  const again = async () => {
    last = await node.again()
    return last
  }
  t.after(async () => {
    await last.objectStorage!.uploader.close()
    await last.service.close()
    await last.stores.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return { node, objects, clock, again }
}

const driverOf = (node: Fixture) => node.driver as ArrivingDriver
const rowOf = async ({ stores }: Fixture, sandboxID: string) => (await stores.sandboxes.find(sandboxID))!
const memoryOf = ({ driver }: Fixture, sandboxID: string) =>
  driver.world.sandboxes.get(sandboxID)?.memory.get('m')

/** A sandbox that only the object store has. Its row of before the resume comes with it. */
async function stored(node: Fixture, autoPause = false) {
  const { service, team, driver, stores } = node
  const options = { ...request().options, autoPause }
  const { sandboxID } = await service.create(team, request({ timeoutMs: 3_600_000, options }))
  driver.world.sandboxes.get(sandboxID)!.memory.set('m', 'memory')
  await service.pause(team, sandboxID, wish)
  await until(async () => ((await stores.remoteBytes.findPaused(sandboxID))?.stored ?? null) !== null)
  driver.world.snapshots.clear()
  return { sandboxID, before: (await stores.remoteBytes.findPaused(sandboxID))! }
}

/** The same, resumed, while its memory is held back. */
async function halfArrived(node: Fixture, autoPause = false) {
  const { sandboxID, before } = await stored(node, autoPause)
  const memoryGate = gate()
  driverOf(node).beforeFilled = () => memoryGate.opened
  await node.service.connect(node.team, sandboxID, timed)
  return { sandboxID, before, memoryGate }
}

test('a sandbox runs before its memory is there, and its row says so until it is', async (t) => {
  const { node, objects, clock } = await world(t)
  const { sandboxID, before, memoryGate } = await halfArrived(node)
  const row = await rowOf(node, sandboxID)
  assert.deepEqual([row.state, row.snapshot?.arrivesFrom?.runID], ['running', before.runID])
  clock.advance(2 * 3_600_000 - 1)
  await node.objectStorage!.sweeper.run()
  assert.ok(objects.objects.has(sandboxKey(before)), 'the object is needed until all memory is there')
  memoryGate.open()
  await until(async () => (await rowOf(node, sandboxID)).snapshot === null)
  assert.equal(memoryOf(node, sandboxID), 'memory')
  await until(async () => node.driver.world.snapshots.size === 0)
  await node.objectStorage!.sweeper.run()
  assert.ok(!objects.objects.has(sandboxKey(before)))
})

test('a pause and a fork wait for the memory', async (t) => {
  const { node } = await world(t)
  const { sandboxID, memoryGate } = await halfArrived(node)
  const fork = node.service.fork(node.team, sandboxID, { timeoutMs: 60_000, count: 1 })
  const pause = node.service.pause(node.team, sandboxID, wish)
  await new Promise((done) => setImmediate(done))
  assert.equal((await rowOf(node, sandboxID)).state, 'running')
  memoryGate.open()
  const [forked] = await fork
  assert.ok(forked && 'sandbox' in forked)
  assert.equal(memoryOf(node, forked.sandbox.sandboxID), 'memory')
  await pause
  await node.service.connect(node.team, sandboxID, timed)
  assert.equal(memoryOf(node, sandboxID), 'memory')
})

/** The row says the same of its snapshot; each change has given it another version. */
async function isAsBefore({ stores }: Fixture, sandboxID: string, before: PausedSandbox): Promise<void> {
  const { version, ...after } = (await stores.remoteBytes.findPaused(sandboxID))!
  assert.deepEqual({ ...after, version: before.version }, before)
}

test('a sandbox that dies before its memory is there is paused as before', async (t) => {
  const { node } = await world(t)
  const { sandboxID, before, memoryGate } = await halfArrived(node)
  node.driver.crash(sandboxID)
  await until(async () => (await rowOf(node, sandboxID)).state === 'paused')
  await isAsBefore(node, sandboxID, before)
  const events = await node.stores.events.list({ teamID: node.team.teamID, sandboxID }, page)
  assert.deepEqual(
    events.map(({ type }) => type),
    ['created', 'paused', 'resumed', 'paused'],
  )
  assert.ok(node.events.some((text) => text.includes('paused again as it was before')))
  memoryGate.open()
  driverOf(node).beforeFilled = async () => {}
  await node.service.connect(node.team, sandboxID, timed)
  await until(async () => memoryOf(node, sandboxID) === 'memory')
})

test('a machine that reboots before the memory is there has the sandbox paused as before', async (t) => {
  const { node, again } = await world(t)
  const { sandboxID, before } = await halfArrived(node)
  node.driver.loseEverything()
  const next = await again()
  await next.reconciler.run()
  await isAsBefore(next, sandboxID, before)
  await next.service.connect(next.team, sandboxID, timed)
  await until(async () => memoryOf(next, sandboxID) === 'memory')
})

test('the next Warren loads the rest', async (t) => {
  const { node, again } = await world(t)
  const { sandboxID } = await halfArrived(node)
  const next = await again()
  await next.reconciler.run()
  await until(async () => (await rowOf(next, sandboxID)).snapshot === null)
  assert.equal(memoryOf(next, sandboxID), 'memory')
})

test('a sandbox whose store is away for minutes is paused as before', async (t) => {
  const { node, objects, clock } = await world(t)
  const { sandboxID, before } = await stored(node)
  let isUnreachable = false
  driverOf(node).beforeFilled = async () => {
    isUnreachable = true
  }
  objects.onStep = (step) => {
    if (isUnreachable && step === 'read') throw new Error('away')
  }
  await node.service.connect(node.team, sandboxID, timed)
  await until(async () => isUnreachable)
  assert.equal((await rowOf(node, sandboxID)).state, 'running')
  for (let passed = 0; passed <= patienceMs + 10_000; passed += 1000) {
    await new Promise((done) => setImmediate(done))
    clock.advance(1000)
  }
  await until(async () => (await rowOf(node, sandboxID)).state === 'paused')
  await isAsBefore(node, sandboxID, before)
  assert.equal(node.driver.world.sandboxes.size, 0)
})

test('a resume that waited for its turn longer than the driver keeps what arrives fetches it again', async (t) => {
  const { node, clock } = await world(t, { startsAtOnce: 1, waitMs: 300_000 })
  const { service, team } = node
  const { sandboxID } = await stored(node)
  const driver = driverOf(node)
  let imports = 0
  const importSnapshot = driver.importSnapshot.bind(driver)
  driver.importSnapshot = (...given) => {
    imports++
    return importSnapshot(...given)
  }
  const memoryGate = gate()
  driver.beforeStarted = () => memoryGate.opened
  const other = service.create(team, request())
  await until(async () => driver.world.sandboxes.size === 1)
  const resumed = service.connect(team, sandboxID, timed)
  await until(async () => imports === 1)
  for (let turn = 0; turn < 20; turn++) await new Promise((done) => setImmediate(done))
  clock.advance(61_000)
  driver.beforeStarted = async () => {}
  memoryGate.open()
  await other
  await resumed
  assert.equal(imports, 2)
  await until(async () => memoryOf(node, sandboxID) === 'memory')
})

test('an automatic pause that waits for memory in vain is tried less and less often', async (t) => {
  const { node, clock } = await world(t)
  const { sandboxID, memoryGate } = await halfArrived(node, true)
  driverOf(node).awaitMemory = () => Promise.reject(new Error('gVisor does not say that it has everything'))
  memoryGate.open()
  clock.advance(3_600_000)
  for (let passed = 0; passed < 300_000; passed += 50) {
    await new Promise((done) => setImmediate(done))
    clock.advance(50)
  }
  const tries = node.logged.filter(({ message }) => message.includes('could not be paused')).length
  assert.ok(tries >= 5 && tries <= 15, `${tries} tries in five minutes`)
  assert.equal((await rowOf(node, sandboxID)).state, 'running')
})

test('a kill before the memory is there leaves nothing', async (t) => {
  const { node } = await world(t)
  const { sandboxID, memoryGate } = await halfArrived(node)
  await node.service.kill(node.team, sandboxID)
  memoryGate.open()
  assert.equal((await rowOf(node, sandboxID)).state, 'ended')
  assert.deepEqual([node.driver.world.sandboxes.size, node.driver.world.snapshots.size], [0, 0])
})

test('a start that fails leaves the sandbox paused as before', async (t) => {
  const { node } = await world(t)
  const { sandboxID, before } = await stored(node)
  node.driver.beforeStarted = () => Promise.reject(new Error('no start'))
  await assert.rejects(node.service.connect(node.team, sandboxID, timed))
  await isAsBefore(node, sandboxID, before)
  node.driver.beforeStarted = async () => {}
  await node.service.connect(node.team, sandboxID, timed)
  await until(async () => memoryOf(node, sandboxID) === 'memory')
})

test('a sandbox that its row went back from is stopped, and is not taken for the next run', async (t) => {
  const { node } = await world(t)
  const { sandboxID, before, memoryGate } = await halfArrived(node)
  node.driver.world.sandboxes.get(sandboxID)!.memory.set('m', 'of the forgotten run')
  const { runID, snapshot } = await rowOf(node, sandboxID)
  const { arrivesFrom: stored, ...old } = snapshot!
  // As when the node was forgotten, although it lives.
  await node.stores.sandboxes.transition({ sandboxID, runID, from: ['running'] }, 'paused', {
    runID: before.runID,
    snapshot: old,
    handle: null,
    stored: stored!,
  })
  memoryGate.open()
  const { driver } = node
  const remove = driver.removeSnapshot.bind(driver)
  driver.removeSnapshot = () => Promise.reject(new Error('cannot be removed'))
  await assert.rejects(node.service.connect(node.team, sandboxID, timed), /already there/)
  assert.equal((await rowOf(node, sandboxID)).state, 'resuming')
  driver.removeSnapshot = remove
  await node.reconciler.run()
  await isAsBefore(node, sandboxID, before)
  assert.equal(driver.world.sandboxes.size, 0)
  driverOf(node).beforeFilled = async () => {}
  await node.service.connect(node.team, sandboxID, timed)
  await until(async () => memoryOf(node, sandboxID) === 'memory')
})

test('a paused sandbox whose upload was cut off before it was recorded comes back from the object store', async (t) => {
  const { node, objects } = await world(t)
  const { service, team, driver, stores } = node
  const { remoteBytes } = stores
  const mark = remoteBytes.markSandbox.bind(remoteBytes)
  remoteBytes.markSandbox = () => Promise.reject(new Error('the database is away'))
  const { sandboxID, runID } = await service.create(team, request({ timeoutMs: 3_600_000 }))
  driver.world.sandboxes.get(sandboxID)!.memory.set('m', 'memory')
  await service.pause(team, sandboxID, wish)
  await until(async () => objects.objects.has(sandboxKey({ sandboxID, runID })))
  await node.objectStorage!.uploader.run()
  driver.world.snapshots.clear()
  remoteBytes.markSandbox = mark
  await node.reconciler.run()
  const paused = await remoteBytes.findPaused(sandboxID)
  assert.deepEqual(paused?.stored?.needs, { cpu: 'usual' }, 'it did not end as lost')
  await service.connect(team, sandboxID, timed)
  await until(async () => memoryOf(node, sandboxID) === 'memory')
})

for (const [release, arrives] of [
  ['an earlier one', false],
  ['this one', true],
] as const) {
  test(`memory ${arrives ? 'arrives later' : 'comes first'} beside a node of ${release}`, async (t) => {
    const { node } = await world(t)
    const beside = aNode('beside')
    await node.stores.nodes.join({
      ...beside,
      facts: { ...beside.facts, ...(arrives && { keepsArriving: true }) },
    })
    const { sandboxID, memoryGate } = await halfArrived(node)
    assert.equal((await rowOf(node, sandboxID)).snapshot?.arrivesFrom !== undefined, arrives)
    assert.equal(memoryOf(node, sandboxID) === 'memory', !arrives)
    memoryGate.open()
    await until(async () => memoryOf(node, sandboxID) === 'memory')
  })
}
