import assert from 'node:assert/strict'
import test from 'node:test'
import { type Fixture, request, turning } from '../../../test/support/domain.ts'
import {
  complaints,
  describeNode,
  memoryOn,
  openDraining,
  startRunning,
} from '../../../test/support/draining.ts'
import { failTransitions } from '../../../test/support/store-faults.ts'
import { AppError } from '../../lib/app-error.ts'

/** Running for an hour, then paused by a drain of its node, whose process ended right after that. */
async function departed({ service, upkeep, team, stores, driver, routes }: Fixture) {
  const sandboxID = await startRunning({ service, team, driver } as Fixture, 3_600_000)
  const removed: boolean[] = []
  const stop = routes.onRemove((_route, departs) => void removed.push(departs))
  const { endAt } = await service.get(team, sandboxID)
  const paused = await upkeep.pauseAsSeen((await stores.sandboxes.find(sandboxID))!, { departs: true })
  stop()
  // Clients whose requests are cut learn that the sandbox lives.
  assert.deepEqual([paused?.state, paused?.runUntil, removed], ['paused', endAt, [true]])
  return { sandboxID, endAt }
}

test('the snapshot of a move is taken after the requests under way have finished', async (t) => {
  const { one } = await openDraining(t)
  const row = (await one.stores.sandboxes.find(await startRunning(one)))!
  const finished = Promise.withResolvers<void>()
  const removed = new Promise<void>((resolve) => {
    one.routes.onRemove(() => {
      resolve()
      return finished.promise
    })
  })
  const pause = one.upkeep.pauseAsSeen(row, { departs: true })
  await removed
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate)
  assert.equal(await one.driver.recover(row.handle!), 'running')
  finished.resolve()
  assert.equal((await pause)?.state, 'paused')
  assert.equal(await one.driver.recover(row.handle!), 'gone')
})

test('a node that took a sandbox and could not resume it does so later by itself, even if it is not draining', async (t) => {
  const { one, other, drainer, drainerOfOther, clock, peer, handOver } = await openDraining(t)
  await other.stores.teams.setLimits(other.team.teamID, { ...other.team.limits, maxSandboxes: 1 })
  const sandboxID = await startRunning(one)
  const { endAt } = await one.service.get(one.team, sandboxID)
  let inTheWay = ''
  peer.handOver = async (...offer) => {
    inTheWay = (await other.service.create(other.team, request({ timeoutMs: 3_600_000 }))).sandboxID
    await handOver(...offer)
  }
  await drainer.run()
  assert.equal((await other.service.get(other.team, sandboxID)).state, 'paused')
  for (let round = 0; round < 3; round++) await drainerOfOther.run()
  assert.equal(complaints(other).length, 1)
  await other.service.kill(other.team, inTheWay)
  clock.advance(61_000)
  await drainerOfOther.run()
  const { state, endAt: end } = await other.service.get(other.team, sandboxID)
  assert.deepEqual([state, end, memoryOn(other, sandboxID)], ['running', endAt, 'memory'])
})

test('a pause that could not be recorded is finished later, and the sandbox resumes on another node', async (t) => {
  const { one, other, drainer, clock } = await openDraining(t)
  const sandboxID = await startRunning(one)
  one.faults.before = failTransitions('paused')
  await turning(clock, drainer.run())
  assert.equal((await one.stores.sandboxes.find(sandboxID))?.state, 'pausing')
  one.faults.before = () => {}
  await one.reconciler.run()
  assert.equal((await one.stores.sandboxes.find(sandboxID))?.state, 'paused')
  clock.advance(61_000)
  await drainer.run()
  assert.equal(memoryOn(other, sandboxID), 'memory')
})

test('a sandbox that a process paused before it crashed resumes, on another node or here', async (t) => {
  const { one, other, again, membership } = await openDraining(t)
  const migrated = await departed(one)
  await again().run()
  assert.equal(memoryOn(other, migrated.sandboxID), 'memory')
  assert.equal((await other.service.get(other.team, migrated.sandboxID)).endAt, migrated.endAt)
  const undrained = await departed(one)
  membership.isDraining = false
  await again().run()
  assert.equal(memoryOn(one, undrained.sandboxID), 'memory')
  assert.equal((await one.service.get(one.team, undrained.sandboxID)).endAt, undrained.endAt)
})

test('if the node that took a sandbox dies before it resumes it, another node resumes it', async (t) => {
  const { one, other, drainer, newDrainer, nodes, clock, peer, open } = await openDraining(t)
  peer.handOver = async (_, { sandboxID, nodeID }) => {
    await other.objectStorage!.migrator.claim(sandboxID, { memory: true, from: nodeID })
    throw new AppError('unavailable', 'The node died.')
  }
  const sandboxID = await startRunning(one)
  await drainer.run()
  assert.equal((await other.service.get(other.team, sandboxID)).state, 'paused')
  const third = await open('third')
  t.after(() => third.stores.close())
  nodes[1]!.silentMs = 60_000
  nodes.push(describeNode('third', 'ready'))
  clock.advance(61_000)
  await drainer.run()
  assert.equal((await other.service.get(other.team, sandboxID)).state, 'paused', 'this one is drained')
  await newDrainer(third, { nodeID: 'third', isDraining: false, nodes: async () => nodes }).run()
  assert.equal(memoryOn(third, sandboxID), 'memory')
})

test('if no other node is left, a sandbox returns to the draining node', async (t) => {
  const { one, other, drainer, nodes, clock, peer } = await openDraining(t)
  peer.handOver = async (_, { sandboxID, nodeID }) => {
    await other.objectStorage!.migrator.claim(sandboxID, { memory: true, from: nodeID })
    throw new AppError('unavailable', 'The node died.')
  }
  const sandboxID = await startRunning(one)
  await drainer.run()
  clock.advance(61_000)
  await drainer.run()
  assert.equal(memoryOn(one, sandboxID), undefined, 'the other one lives')
  nodes[1]!.silentMs = 60_000
  await drainer.run()
  assert.equal(memoryOn(one, sandboxID), 'memory')
})

test('a timeout that is extended between the list and the move is kept', async (t) => {
  const { one, other, drainer, membership, nodes, clock } = await openDraining(t)
  const sandboxID = await startRunning(one, 120_000)
  let isExtended = false
  membership.nodes = async () => {
    if (!isExtended) await one.service.setTimeout(one.team, sandboxID, 3_600_000)
    isExtended = true
    return nodes
  }
  const endAt = clock.now() + 3_600_000
  await drainer.run()
  assert.equal(memoryOn(other, sandboxID), 'memory')
  assert.equal((await other.service.get(other.team, sandboxID)).endAt, endAt)
})

test('a client that pauses a sandbox which a drain has just paused succeeds, and the sandbox stays paused', async (t) => {
  const { one, other, again, membership } = await openDraining(t)
  const { sandboxID } = await departed(one)
  await one.service.pause(one.team, sandboxID, { memory: true, requireHealthyAgent: false })
  await assert.rejects(
    one.service.pause(one.team, sandboxID, { memory: true, requireHealthyAgent: false }),
    /already paused/,
  )
  await one.objectStorage!.uploader.run()
  await again().run()
  assert.equal((await other.service.get(other.team, sandboxID)).state, 'paused')
  const second = await departed(one)
  await one.service.pause(one.team, second.sandboxID, { memory: false, requireHealthyAgent: false })
  membership.isDraining = false
  await again().run()
  const { state, snapshot } = await one.service.get(one.team, second.sandboxID)
  assert.deepEqual([state, snapshot?.memory], ['paused', false])
})

test("a client's pause wins over the resume by the new node", async (t) => {
  const { one, other, drainer, peer, handOver } = await openDraining(t)
  let sandboxID = ''
  peer.handOver = async (...offer) => {
    other.faults.before = async (method) => {
      if (method !== 'resumeWithinLimits') return
      other.faults.before = () => {}
      const row = (await other.stores.sandboxes.find(sandboxID))!
      assert.ok(await other.stores.sandboxes.stayPaused(row, row.snapshot!))
    }
    await handOver(...offer)
  }
  sandboxID = await startRunning(one)
  await drainer.run()
  assert.equal((await other.service.get(other.team, sandboxID)).state, 'paused')
})

test('a client that connects to a sandbox paused by a drain does not shorten its life', async (t) => {
  const { one } = await openDraining(t)
  const { sandboxID, endAt } = await departed(one)
  const { sandbox } = await one.service.connect(one.team, sandboxID, { timeoutMs: 60_000, memory: true })
  assert.deepEqual([sandbox.state, sandbox.endAt, sandbox.runUntil], ['running', endAt, null])
})

test('a failed resume leaves the sandbox to be resumed again', async (t) => {
  const { one, again, membership, clock } = await openDraining(t)
  const { sandboxID } = await departed(one)
  membership.isDraining = false
  const drainer = again()
  one.driver.beforeStarted = async () => {
    one.driver.beforeStarted = async () => {}
    throw new AppError('unavailable', 'The machine is busy.')
  }
  await drainer.run()
  assert.equal((await one.service.get(one.team, sandboxID)).state, 'paused')
  clock.advance(61_000)
  await drainer.run()
  assert.equal((await one.service.get(one.team, sandboxID)).state, 'running')
})

test('a node stops trying to resume a sandbox that has ended', async (t) => {
  const { one, drainer, clock, peer } = await openDraining(t)
  peer.handOver = async () => {
    await one.service.kill(one.team, sandboxID)
    throw new AppError('unavailable', 'Node other did not answer.')
  }
  const sandboxID = await startRunning(one)
  await drainer.run()
  clock.advance(61_000)
  await drainer.run()
  assert.deepEqual([peer.asked, (await one.stores.sandboxes.find(sandboxID))?.runUntil], [1, null])
})
