import assert from 'node:assert/strict'
import test from 'node:test'
import { gate, until } from '../../../test/support/domain.ts'
import {
  complaints,
  describeNode,
  memoryOn,
  openDraining,
  startRunning,
} from '../../../test/support/draining.ts'
import { AppError } from '../../lib/app-error.ts'

test('a running sandbox of a draining node runs on another node, with its memory and until the same time', async (t) => {
  const { one, other, drainer, clock } = await openDraining(t)
  const sandboxID = await startRunning(one)
  const { endAt } = await one.service.get(one.team, sandboxID)
  clock.advance(1000)
  await drainer.run()
  assert.equal(memoryOn(one, sandboxID), undefined)
  assert.equal(memoryOn(other, sandboxID), 'memory')
  const migrated = await other.service.get(other.team, sandboxID)
  assert.deepEqual([migrated.state, migrated.endAt], ['running', endAt])
  await drainer.run()
  assert.equal(memoryOn(other, sandboxID), 'memory')
})

test('a node that is not draining keeps its sandboxes', async (t) => {
  const { one, drainer, membership } = await openDraining(t)
  membership.isDraining = false
  const sandboxID = await startRunning(one)
  await drainer.run()
  assert.equal(memoryOn(one, sandboxID), 'memory')
})

test('a paused sandbox moves to another node and stays paused', async (t) => {
  const { one, other, drainer } = await openDraining(t)
  const sandboxID = await startRunning(one)
  await one.service.pause(one.team, sandboxID, { memory: true, requireHealthyAgent: false })
  await one.objectStorage!.uploader.run()
  await drainer.run()
  assert.equal((await other.service.get(other.team, sandboxID)).state, 'paused')
})

test('a sandbox that cannot move runs to its end where it is, untouched', async (t) => {
  const { one, drainer, peer } = await openDraining(t, { canMigrateMemory: false })
  const sandboxID = await startRunning(one)
  const { runID } = await one.service.get(one.team, sandboxID)
  await drainer.run()
  const row = await one.service.get(one.team, sandboxID)
  assert.deepEqual([row.state, row.runID, peer.asked], ['running', runID, 0])
})

test('a sandbox that ends soon is not moved', async (t) => {
  const { one, drainer, peer } = await openDraining(t)
  const sandboxID = await startRunning(one, 30_000)
  await drainer.run()
  assert.equal(memoryOn(one, sandboxID), 'memory')
  assert.equal(peer.asked, 0)
})

test('a sandbox whose client extends a short time again and again does not hold up the drain', async (t) => {
  const { one, other, drainer, clock } = await openDraining(t)
  const sandboxID = await startRunning(one, 30_000)
  await drainer.run()
  await drainer.run()
  assert.equal(memoryOn(one, sandboxID), 'memory')
  clock.advance(10_000)
  await one.service.setTimeout(one.team, sandboxID, 30_000)
  const { endAt } = await one.service.get(one.team, sandboxID)
  await drainer.run()
  const migrated = await other.service.get(other.team, sandboxID)
  assert.deepEqual([memoryOn(other, sandboxID), migrated.endAt], ['memory', endAt])
})

test('nothing is paused if no other node has capacity', async (t) => {
  const { one, drainer, nodes } = await openDraining(t)
  nodes[1]!.load = { ...nodes[1]!.load, freeMemoryMB: 1 }
  const sandboxID = await startRunning(one)
  const { runID } = await one.service.get(one.team, sandboxID)
  await drainer.run()
  assert.equal((await one.service.get(one.team, sandboxID)).runID, runID)
  assert.equal(complaints(one).length, 1)
})

test('a sandbox that no node accepts keeps running here; this is logged once and tried again later', async (t) => {
  const { one, other, drainer, clock, peer, handOver } = await openDraining(t)
  peer.handOver = async () => {
    throw new AppError('unavailable', 'Node other did not answer.')
  }
  const sandboxID = await startRunning(one)
  for (let round = 0; round < 3; round++) await drainer.run()
  assert.equal(peer.asked, 1)
  assert.equal(memoryOn(one, sandboxID), 'memory')
  clock.advance(61_000)
  await drainer.run()
  assert.equal(peer.asked, 2)
  assert.equal(complaints(one).length, 1)
  peer.handOver = handOver
  clock.advance(61_000)
  await drainer.run()
  assert.equal(memoryOn(one, sandboxID), undefined)
  assert.equal(memoryOn(other, sandboxID), 'memory')
})

test('a sandbox keeps running here while the object store does not answer', async (t) => {
  const { one, drainer, objects } = await openDraining(t)
  objects.isGone = true
  const sandboxID = await startRunning(one)
  await drainer.run()
  assert.equal(memoryOn(one, sandboxID), 'memory')
  assert.equal((await one.service.get(one.team, sandboxID)).state, 'running')
})

test('a lost answer leaves one live copy of the sandbox, on the node that took it', async (t) => {
  const { one, other, drainer, clock, peer, handOver } = await openDraining(t)
  peer.handOver = async (...offer) => {
    await handOver(...offer)
    throw new AppError('unavailable', 'The connection was lost.')
  }
  const sandboxID = await startRunning(one)
  await drainer.run()
  assert.equal(memoryOn(one, sandboxID), undefined)
  assert.equal(memoryOn(other, sandboxID), 'memory')
  // Its team pauses it there: that the node is asked once more must not wake it.
  await other.service.pause(other.team, sandboxID, { memory: true, requireHealthyAgent: false })
  peer.handOver = handOver
  clock.advance(61_000)
  await drainer.run()
  assert.equal((await other.service.get(other.team, sandboxID)).state, 'paused')
  assert.equal(peer.asked, 1, 'the row says that nothing is left to do')
})

test('a sandbox whose memory no other node can use is not interrupted, and moves as soon as a node can', async (t) => {
  const { one, other, drainer, clock, peer } = await openDraining(t)
  const { cpu } = other.driver.world
  other.driver.world.cpu = 'lesser'
  const sandboxID = await startRunning(one)
  const { runID } = await one.service.get(one.team, sandboxID)
  await drainer.run()
  assert.deepEqual([peer.asked, memoryOn(one, sandboxID)], [0, 'memory'])
  assert.equal((await one.service.get(one.team, sandboxID)).runID, runID)
  other.driver.world.cpu = cpu
  clock.advance(61_000)
  await drainer.run()
  assert.equal(memoryOn(other, sandboxID), 'memory')
})

test('a node of an older release that rejects the memory is not offered the sandbox again until it restarts', async (t) => {
  const { one, other, drainer, clock, peer, nodes } = await openDraining(t)
  const { cpu } = other.driver.world
  other.driver.world.cpu = 'lesser'
  peer.whyUnfit = async () => undefined
  const sandboxID = await startRunning(one)
  for (let round = 0; round < 2; round++) {
    await drainer.run()
    clock.advance(61_000)
  }
  assert.deepEqual([peer.asked, memoryOn(one, sandboxID)], [1, 'memory'])
  other.driver.world.cpu = cpu
  nodes[1]!.runID = 'its next process'
  await drainer.run()
  assert.equal(memoryOn(other, sandboxID), 'memory')
})

test('the next node is asked if the best one cannot use the memory, whatever their versions', async (t) => {
  const { one, other, drainer, peer, nodes, handOver } = await openDraining(t)
  nodes[1]!.facts = { ...nodes[1]!.facts, version: '2' }
  nodes.push({ ...describeNode('third', 'ready'), facts: { ...nodes[0]!.facts, version: '3' } })
  const offeredTo: string[] = []
  peer.whyUnfit = async ({ nodeID }) => (nodeID === 'other' ? undefined : 'It needs another runtime.')
  peer.handOver = (node, ...rest) => {
    offeredTo.push(node.nodeID)
    return handOver(node, ...rest)
  }
  // The third node ranks first.
  nodes[1]!.load = { ...nodes[1]!.load, allocatedCPU: 50 }
  const sandboxID = await startRunning(one)
  await drainer.run()
  assert.deepEqual([offeredTo, memoryOn(other, sandboxID)], [['other'], 'memory'])
})

test('requests for a sandbox wait until its move has ended', async (t) => {
  const { one, drainer, peer, handOver, clock } = await openDraining(t)
  const [asked, opened] = [gate(), gate()]
  peer.handOver = async (...offer) => {
    asked.open()
    await opened.opened
    await handOver(...offer)
  }
  const sandboxID = await startRunning(one)
  const round = drainer.run()
  await asked.opened
  let isSettled = false
  const settled = drainer.settled(sandboxID).then(() => {
    isSettled = true
  })
  const others = Array.from({ length: 10 }, () => drainer.settled(sandboxID))
  assert.equal(isSettled, false)
  opened.open()
  await Promise.all([round, settled, ...others])
  await until(async () => isSettled)
  assert.ok(clock.pendingCount < 10, 'a request leaves no timer behind')
})
