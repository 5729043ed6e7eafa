import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../lib/clock.ts'
import { silentLog } from '../../lib/log.ts'
import type { ClusterNode } from './node.ts'
import { NodeForgetter } from './node-forgetter.ts'

function open(silences: Record<string, number>) {
  const forgotten: string[] = []
  const waits = new Set<number>()
  const lease = { isAcquired: false }
  const membership = { steadyForMs: 3_600_000 }
  const forgetter = new NodeForgetter({
    nodes: {
      list: async () =>
        Object.entries(silences).map(([nodeID, silentMs]) => ({ nodeID, silentMs }) as ClusterNode),
      forget: async (nodeID, _at, silentForMs) => {
        forgotten.push(nodeID)
        waits.add(silentForMs)
        // As if the database went away meanwhile.
        if (nodeID === 'the last') membership.steadyForMs = 0
        return { sandboxes: 0, builds: 0, volumes: 0 }
      },
    },
    leases: {
      acquire: async () => !lease.isAcquired,
      release: async () => {},
    },
    membership,
    afterMs: 600_000,
    clock: new ManualClock(),
    log: silentLog,
  })
  return { forgetter, forgotten, waits, lease, membership }
}

test("only a node that is absent for longer than the operator's limit is forgotten", async () => {
  const { forgetter, forgotten, waits } = open({
    lives: 1000,
    unreachable: 599_000,
    'gone for good': 601_000,
  })
  await forgetter.run()
  assert.deepEqual(forgotten, ['gone for good'])
  assert.deepEqual(
    [...waits],
    [600_000],
    'one that has come back since it was listed, and is away again, stays',
  )
})

test('only one Warren at a time forgets nodes', async () => {
  const { forgetter, forgotten, lease } = open({ 'gone for good': 601_000 })
  lease.isAcquired = true
  await forgetter.run()
  assert.deepEqual(forgotten, [])
})

test('nodes that could give no sign of life during an outage of the database are not forgotten after it', async () => {
  const { forgetter, forgotten, membership } = open({ 'lives, and tells so in a second': 601_000 })
  for (const steadyForMs of [0, 1000, 299_000]) {
    membership.steadyForMs = steadyForMs
    await forgetter.run()
  }
  assert.deepEqual(forgotten, [])
  membership.steadyForMs = 300_000
  await forgetter.run()
  assert.equal(forgotten.length, 1)
})

test('if the database fails in between, the remaining work is left for later', async () => {
  const { forgetter, forgotten } = open({ 'the last': 601_000, 'one more': 601_000 })
  await forgetter.run()
  assert.deepEqual(forgotten, ['the last'])
})
