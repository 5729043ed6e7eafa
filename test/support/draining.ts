/** The set-up of tests of draining: two nodes over one database and one object store; the first node is draining. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { Drainer, type DrainerParts } from '../../src/core/cluster/drainer.ts'
import { type AskWhyUnfit, type HandOver, takeOffered } from '../../src/core/cluster/hand-over.ts'
import type { ClusterNode } from '../../src/core/cluster/node.ts'
import { newFakeWorld } from '../../src/drivers/fake/fake-world.ts'
import { ManualClock } from '../../src/lib/clock.ts'
import { MemoryObjectStore } from '../../src/objects/memory-object-store.ts'
import { ObjectPacks } from '../../src/objects/packs.ts'
import { type Fixture, openFixture, request } from './domain.ts'
import { FakeLayers } from './fake-layers.ts'
import { idleLoad } from './idle-load.ts'
import { closeNodes } from './object-cluster.ts'

const roomy = { ...idleLoad, freeCPU: 100, freeMemoryMB: 1e6 }
export const describeNode = (nodeID: string, status: ClusterNode['status']) =>
  ({
    nodeID,
    runID: `process of ${nodeID}`,
    status,
    silentMs: 0,
    load: roomy,
    facts: { version: '1', isolation: 'gvisor', cpu: { architecture: 'x86_64', features: [] } },
  }) as unknown as ClusterNode

/** Two Warrens on two machines, over one database and one object store; the first of them is drained. */
export async function openDraining(t: TestContext, { canMigrateMemory = true } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-drain-'))
  const clock = new ManualClock()
  const objects = new MemoryObjectStore(clock)
  const layers = new FakeLayers()
  const objectStorage = { objects, packs: new ObjectPacks(objects), layers }
  const open = (nodeID: string) =>
    openFixture({ folder, clock, world: newFakeWorld(), nodeID, ports: { objectStorage } })
  const [one, other] = [await open('one'), await open('other')]
  t.after(async () => {
    await closeNodes(one, other)
    rmSync(folder, { recursive: true, force: true })
  })
  const nodes = [describeNode('one', 'draining'), describeNode('other', 'ready')]
  const membership = { nodeID: 'one', isDraining: true, nodes: async () => nodes }
  const handOver: HandOver = (_node, offered) =>
    takeOffered(
      {
        ...other.stores,
        rows: other.stores.remoteBytes,
        migrator: other.objectStorage!.migrator,
        clock,
        ...partsOf(other),
      },
      offered,
    )
  const whyUnfit: AskWhyUnfit = (_node, needs) => other.driver.whyUnfit(needs)
  const peer = { handOver, whyUnfit, asked: 0 }
  const newDrainer = (node: Fixture, as: DrainerParts['membership']) =>
    new Drainer({
      ...node.stores,
      rows: node.stores.remoteBytes,
      ...node.objectStorage!,
      ...partsOf(node),
      membership: as,
      canMigrateMemory,
      clock,
      drawBelow: () => 0,
      readNeeds: () => node.driver.memoryNeeds(),
      askWhyUnfit: (...question) => peer.whyUnfit(...question),
      handOver: (...offer) => {
        peer.asked++
        return peer.handOver(...offer)
      },
    })
  const drainer = newDrainer(one, membership)
  const drainerOfOther = newDrainer(other, { nodeID: 'other', isDraining: false, nodes: async () => nodes })
  const { buildID } = (await one.stores.templates.findReadyBuild('basetemplate', 'default'))!
  await one.stores.remoteBytes.markBuild(buildID, { at: 1, needs: null })
  const again = () => newDrainer(one, membership)
  const others = { drainerOfOther, newDrainer, again }
  return { one, other, drainer, ...others, open, membership, nodes, clock, objects, peer, handOver }
}

const partsOf = ({ upkeep, logged }: Fixture) => {
  const at = (level: 'debug' | 'info' | 'warn' | 'error') => (values: object, message: string) =>
    void logged.push({ level, values, message })
  return { upkeep, log: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') } }
}

export async function startRunning({ service, team, driver }: Fixture, timeoutMs = 600_000): Promise<string> {
  const { sandboxID } = await service.create(team, request({ timeoutMs }))
  driver.world.sandboxes.get(sandboxID)!.memory.set('m', 'memory')
  return sandboxID
}

export const memoryOn = ({ driver }: Fixture, sandboxID: string) =>
  driver.world.sandboxes.get(sandboxID)?.memory.get('m')

export const complaints = ({ logged }: Fixture) =>
  logged.filter(({ message }) => message.includes('could not be moved from a draining node'))
