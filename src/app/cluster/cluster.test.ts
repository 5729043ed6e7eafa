/** What this Warren does as a node, joined as the server joins it, over sandboxes that are not real. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openFixture, request, turning, until } from '../../../test/support/domain.ts'
import { renewEveryMs } from '../../core/cluster/node.ts'
import { silentLog } from '../../lib/log.ts'
import { vault } from '../../store/suite/rows.ts'
import { Closers } from '../process/shutdown.ts'
import { type ClusterParts, joinCluster } from './cluster.ts'

/** From now on every method of these objects is called in vain: it neither returns nor fails. Undo it by the returned function. */
function stopObjects(objects: readonly object[], spared: readonly unknown[]): () => void {
  const undo: (() => void)[] = []
  for (const object of objects) {
    for (let of = object; of !== Object.prototype && of !== null; of = Object.getPrototypeOf(of)) {
      for (const name of Object.getOwnPropertyNames(of)) {
        const method: unknown = Object.getOwnPropertyDescriptor(of, name)?.value
        if (typeof method !== 'function' || name === 'constructor' || spared.includes(method)) continue
        if (Object.hasOwn(object, name) && of !== object) continue
        const own = Object.getOwnPropertyDescriptor(object, name)
        Object.defineProperty(object, name, { configurable: true, value: () => new Promise(() => {}) })
        undo.push(() => {
          Reflect.deleteProperty(object, name)
          if (own) Object.defineProperty(object, name, own)
        })
      }
    }
  }
  return () => {
    for (const step of undo) step()
  }
}

test('a node gives signs of life although everything else in it stands still, and it is draining', async () => {
  await using fixture = await openFixture({ warm: 1 })
  const { stores, driver, clock, folder, nodeID, warm, team, ...domain } = fixture
  await fixture.service.create(team, request())
  clock.advance(1000)
  await until(async () => warm.count().ready > 0)
  const machine = { cpuCount: 64, memoryMB: 1e6, availableMemoryMB: async () => 1e6 }
  const closers = new Closers(silentLog)
  const parts = {
    config: { peerAddress: '127.0.0.1:9', forgetNodesAfterMinutes: null },
    paths: { root: folder },
    node: { nodeID },
    folderID: 'here',
    onReplaced: ({ message }: Error) => assert.fail(message),
    secrets: { seed: '1', adminToken: '2' },
    isolation: { isolation: 'container' },
    ports: { ...domain, stores, driver, vault, clock, machine, log: silentLog },
    domain: fixture,
  }
  await joinCluster(parts as unknown as ClusterParts, closers)
  const { nodes } = stores
  let signs = 0
  const renew = nodes.renew
  nodes.renew = async (sign) => {
    const recorded = await renew.call(nodes, sign)
    signs++
    return recorded
  }
  await nodes.setStatus(nodeID, 'draining')
  const all: unknown[] = [...Object.values(fixture), ...Object.values(stores), machine]
  const isOther = (part: unknown): part is object =>
    typeof part === 'object' && part !== null && part !== clock && part !== stores
  const move = stopObjects(all.filter(isOther), [nodes.renew])
  try {
    await until(async () => {
      clock.advance(renewEveryMs)
      return signs > 3
    })
  } finally {
    move()
    await turning(clock, closers.closeAll())
  }
})
