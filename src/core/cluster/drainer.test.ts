import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { type Fixture, gate, openFixture, request, until } from '../../../test/support/domain.ts'
import { newFakeWorld } from '../../drivers/fake/fake-world.ts'
import { AppError } from '../../lib/app-error.ts'
import { ManualClock } from '../../lib/clock.ts'
import { MemoryObjectStore } from '../../objects/memory-object-store.ts'
import { ObjectPacks } from '../../objects/packs.ts'
import { Drainer } from './drainer.ts'
import { type HandOver, takeOffered } from './hand-over.ts'
import type { ClusterNode } from './node.ts'

const roomy = { freeCPU: 100, freeMemoryMB: 1e6, allocatedCPU: 0, allocatedMemoryMB: 0, warmTemplates: [] }
const describe = (nodeID: string, status: ClusterNode['status']) =>
  ({
    ...{ nodeID, status, silentMs: 0, load: { ...roomy, buildsAtHand: [] } },
    facts: { version: '1', isolation: 'gvisor', cpu: { architecture: 'x86_64', features: [] } },
  }) as unknown as ClusterNode

/** Two Warrens on two machines, over one database and one object store; the first of them is drained. */
async function draining(t: TestContext, { canMoveMemory = true } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-drain-'))
  const clock = new ManualClock()
  const objects = new MemoryObjectStore(clock)
  const layers = { archive: async () => {}, bring: async () => {} }
  const archive = { objects, packs: new ObjectPacks(objects), layers }
  const open = (nodeID: string) =>
    openFixture({ folder, clock, world: newFakeWorld(), nodeID, ports: { archive } })
  const [one, other] = [await open('one'), await open('other')]
  t.after(async () => {
    for (const node of [one, other]) {
      await node.archive!.archiver.close()
      await node.service.close()
      await node.stores.close()
    }
    rmSync(folder, { recursive: true, force: true })
  })
  const nodes = [describe('one', 'draining'), describe('other', 'ready')]
  const membership = { nodeID: 'one', isDraining: true, nodes: async () => nodes }
  const take: HandOver = (_node, offered) =>
    takeOffered(
      { ...other.stores, rows: other.stores.archive, mover: other.archive!.mover, ...partsOf(other) },
      offered,
    )
  const peer = { handOver: take, asked: 0 }
  const drainer = new Drainer({
    ...{ ...one.stores, membership, rows: one.stores.archive, ...partsOf(one), canMoveMemory, clock },
    archiver: one.archive!.archiver,
    handOver: (...offer) => {
      peer.asked++
      return peer.handOver(...offer)
    },
    drawBelow: () => 0,
  })
  const { buildID } = (await one.stores.templates.findReadyBuild('basetemplate', 'default'))!
  await one.stores.archive.markBuild(buildID, { at: 1, needs: null })
  return { one, other, drainer, membership, nodes, clock, objects, peer, take }
}

const partsOf = ({ service, logged }: Fixture) => {
  const at = (level: 'debug' | 'info' | 'warn' | 'error') => (values: object, message: string) =>
    void logged.push({ level, values, message })
  return { service, log: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') } }
}

async function running({ service, team, driver }: Fixture, timeoutMs = 600_000): Promise<string> {
  const { sandboxID } = await service.create(team, request({ timeoutMs }))
  driver.world.sandboxes.get(sandboxID)!.memory.set('m', 'memory')
  return sandboxID
}

const memoryOn = ({ driver }: Fixture, sandboxID: string) =>
  driver.world.sandboxes.get(sandboxID)?.memory.get('m')

const complaints = ({ logged }: Fixture) =>
  logged.filter(({ message }) => message.includes('could not be moved off this node'))

test('what runs on a node that is drained runs on another one, with its memory and until the same time', async (t) => {
  const { one, other, drainer, clock } = await draining(t)
  const sandboxID = await running(one)
  const { endAt } = await one.service.get(one.team, sandboxID)
  clock.advance(1000)
  await drainer.run()
  assert.equal(memoryOn(one, sandboxID), undefined)
  assert.equal(memoryOn(other, sandboxID), 'memory')
  const moved = await other.service.get(other.team, sandboxID)
  assert.deepEqual([moved.state, moved.endAt], ['running', endAt])
  await drainer.run()
  assert.equal(memoryOn(other, sandboxID), 'memory')
})

test('a node that is not drained keeps what it has', async (t) => {
  const { one, drainer, membership } = await draining(t)
  membership.isDraining = false
  const sandboxID = await running(one)
  await drainer.run()
  assert.equal(memoryOn(one, sandboxID), 'memory')
})

test('a paused sandbox goes to another node paused', async (t) => {
  const { one, other, drainer } = await draining(t)
  const sandboxID = await running(one)
  await one.service.pause(one.team, sandboxID, { memory: true, requireHealthyAgent: false })
  await one.archive!.archiver.run()
  await drainer.run()
  assert.equal((await other.service.get(other.team, sandboxID)).state, 'paused')
})

test('what cannot move runs on to its end where it is, untouched', async (t) => {
  const { one, drainer, peer } = await draining(t, { canMoveMemory: false })
  const sandboxID = await running(one)
  const { runID } = await one.service.get(one.team, sandboxID)
  await drainer.run()
  const row = await one.service.get(one.team, sandboxID)
  assert.deepEqual([row.state, row.runID, peer.asked], ['running', runID, 0])
})

test('what ends soon is not moved', async (t) => {
  const { one, drainer, peer } = await draining(t)
  const sandboxID = await running(one, 30_000)
  await drainer.run()
  assert.equal(memoryOn(one, sandboxID), 'memory')
  assert.equal(peer.asked, 0)
})

test('without another node that has room nothing is paused', async (t) => {
  const { one, drainer, nodes } = await draining(t)
  nodes[1]!.load = { ...nodes[1]!.load, freeMemoryMB: 1 }
  const sandboxID = await running(one)
  const { runID } = await one.service.get(one.team, sandboxID)
  await drainer.run()
  assert.equal((await one.service.get(one.team, sandboxID)).runID, runID)
  assert.equal(complaints(one).length, 1)
})

test('a node that does not take it leaves it running here; it is told once and tried again after a while', async (t) => {
  const { one, other, drainer, clock, peer, take } = await draining(t)
  peer.handOver = async () => {
    throw new AppError('unavailable', 'Node other did not answer.')
  }
  const sandboxID = await running(one)
  for (let round = 0; round < 3; round++) await drainer.run()
  assert.equal(peer.asked, 1)
  assert.equal(memoryOn(one, sandboxID), 'memory')
  clock.advance(61_000)
  await drainer.run()
  assert.equal(peer.asked, 2)
  assert.equal(complaints(one).length, 1)
  peer.handOver = take
  clock.advance(61_000)
  await drainer.run()
  assert.equal(memoryOn(one, sandboxID), undefined)
  assert.equal(memoryOn(other, sandboxID), 'memory')
})

test('while the object store is gone a sandbox goes on here', async (t) => {
  const { one, drainer, objects } = await draining(t)
  objects.isGone = true
  const sandboxID = await running(one)
  await drainer.run()
  assert.equal(memoryOn(one, sandboxID), 'memory')
  assert.equal((await one.service.get(one.team, sandboxID)).state, 'running')
})

test('an answer that is lost on the way leaves one live copy, on the node that took it', async (t) => {
  const { one, other, drainer, clock, peer, take } = await draining(t)
  peer.handOver = async (...offer) => {
    await take(...offer)
    throw new AppError('unavailable', 'The connection was lost.')
  }
  const sandboxID = await running(one)
  await drainer.run()
  assert.equal(memoryOn(one, sandboxID), undefined)
  assert.equal(memoryOn(other, sandboxID), 'memory')
  // Its team pauses it there: that the node is asked once more must not wake it.
  await other.service.pause(other.team, sandboxID, { memory: true, requireHealthyAgent: false })
  peer.handOver = take
  clock.advance(61_000)
  await drainer.run()
  assert.equal((await other.service.get(other.team, sandboxID)).state, 'paused')
})

test('a node that took it and could not resume it is asked again, also when the node is drained no more', async (t) => {
  const { one, other, drainer, clock, membership, peer, take } = await draining(t)
  peer.handOver = async (node, offered, signal) => {
    await take(node, { ...offered, timeoutMs: null }, signal)
    throw new AppError('unavailable', 'The team has as many sandboxes as it may.')
  }
  const sandboxID = await running(one)
  await drainer.run()
  assert.equal((await other.service.get(other.team, sandboxID)).state, 'paused')
  peer.handOver = take
  membership.isDraining = false
  clock.advance(61_000)
  await drainer.run()
  assert.equal(memoryOn(other, sandboxID), 'memory')
})

test('memory that no other node can use is not tried again', async (t) => {
  const { one, other, drainer, clock, peer } = await draining(t)
  other.driver.world.cpu = 'lesser'
  const sandboxID = await running(one)
  await drainer.run()
  clock.advance(61_000)
  await drainer.run()
  assert.equal(peer.asked, 1)
  assert.equal(memoryOn(one, sandboxID), 'memory')
})

test('requests for a sandbox wait until its move has ended', async (t) => {
  const { one, drainer, peer, take } = await draining(t)
  const [asked, opened] = [gate(), gate()]
  peer.handOver = async (...offer) => {
    asked.open()
    await opened.opened
    await take(...offer)
  }
  const sandboxID = await running(one)
  const round = drainer.run()
  await asked.opened
  let isSettled = false
  const settled = drainer.settled(sandboxID).then(() => {
    isSettled = true
  })
  assert.equal(isSettled, false)
  opened.open()
  await Promise.all([round, settled])
  await until(async () => isSettled)
})
