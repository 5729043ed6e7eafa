import assert from 'node:assert/strict'
import test from 'node:test'
import { idleLoad } from '../../../test/support/idle-load.ts'
import type { ClusterNode, NodeFacts, NodeLoad } from './node.ts'
import { type PlacementDemand, rankNodes as rankLazily, type SentDemand } from './rank-nodes.ts'

const facts: NodeFacts = {
  version: '1',
  isolation: 'container',
  cpuCount: 4,
  memoryMB: 8192,
  cpu: { architecture: 'x86_64', family: '6', model: '1', modelName: 'A', features: ['avx', 'sse'] },
}
const load: NodeLoad = { ...idleLoad, freeCPU: 100, freeMemoryMB: 10_000, availableMemoryMB: 4000 }
type Changes = Partial<Omit<ClusterNode, 'facts' | 'load'>> & {
  facts?: Partial<NodeFacts>
  load?: Partial<NodeLoad>
}
const node = (nodeID: string, changes: Changes = {}): ClusterNode => ({
  nodeID,
  runID: 'r',
  address: 'a:1',
  status: 'ready',
  statusChangedAt: 0,
  silentMs: 0,
  ...changes,
  facts: { ...facts, ...changes.facts },
  load: { ...load, ...changes.load },
})
const demand: PlacementDemand = {
  templateID: 't',
  cpuCount: 2,
  memoryMB: 1024,
  builder: undefined,
  buildID: undefined,
  isBound: false,
}
const nothing = (): SentDemand => ({ cpuCount: 0, memoryMB: 0 })
const first = () => 0
const rankNodes = (...of: Parameters<typeof rankLazily>) => [...rankLazily(...of)]
const order = (
  nodes: ClusterNode[],
  wanted: Partial<PlacementDemand> = {},
  sent: (nodeID: string) => SentDemand = nothing,
) =>
  rankNodes(nodes, { ...demand, ...wanted }, { sentTo: sent, drawBelow: first }).map((one) => one.node.nodeID)

test('absent and draining nodes get no sandboxes', () => {
  const nodes = [node('a', { silentMs: 60_000 }), node('b', { status: 'draining' }), node('c')]
  assert.deepEqual(order(nodes), ['c'])
})

test('a node with a warm sandbox is preferred to one with the files on its disk, and that to others', () => {
  const nodes = [
    node('a'),
    node('b', { load: { buildsAtHand: ['x'] } }),
    node('c', { load: { warmTemplates: ['t'] } }),
  ]
  assert.deepEqual(order(nodes, { buildID: 'x', builder: 'a' })[0], 'c')
  assert.deepEqual(order(nodes, { buildID: 'x' }), ['c', 'b', 'a'])
})

test('free capacity counts before everything else, and includes sandboxes sent to a node since its last report', () => {
  const full = node('a', { load: { warmTemplates: ['t'], freeMemoryMB: 500 } })
  assert.deepEqual(order([full, node('b')]), ['b', 'a'])
  const ranked = rankNodes([full], demand, { sentTo: nothing, drawBelow: first })
  assert.deepEqual(
    ranked.map(({ hasCapacity }) => hasCapacity),
    [false],
  )
  const sent = (nodeID: string) => (nodeID === 'b' ? { cpuCount: 99, memoryMB: 0 } : nothing())
  assert.deepEqual(order([node('a'), node('b')], {}, sent), ['a', 'b'])
})

test('of two nodes drawn at random, the emptier one is chosen', () => {
  const busy = node('a', { load: { allocatedMemoryMB: 9000, freeMemoryMB: 9000 } })
  assert.deepEqual(order([busy, node('b')])[0], 'b')
})

test('a build that only one node has goes to that node, and memory goes to a node whose isolation and CPU can restore it', () => {
  const nodes = [
    node('a'),
    node('b', { facts: { isolation: 'gvisor' } }),
    node('c', { facts: { cpu: { ...facts.cpu, features: ['sse'] } } }),
    node('d', { facts: { cpu: { ...facts.cpu, features: ['avx', 'avx2', 'sse'] } } }),
  ]
  assert.deepEqual(order(nodes, { builder: 'a', isBound: true }), ['a'])
  assert.deepEqual(order(nodes, { builder: 'a' }).toSorted(), ['a', 'd'])
})

test('a thousand creates on ten equal nodes spread within a few percent', () => {
  const nodes = Array.from({ length: 10 }, (_, index) =>
    node(`n${index}`, { load: { freeMemoryMB: 1e9, freeCPU: 1e9 } }),
  )
  const sent = new Map<string, SentDemand>()
  let state = 1
  const draw = (count: number) => {
    state = (state * 48_271) % 2_147_483_647
    return state % count
  }
  for (let create = 0; create < 1000; create++) {
    const [best] = rankNodes(nodes, demand, { sentTo: (id) => sent.get(id) ?? nothing(), drawBelow: draw })
    const { nodeID } = best!.node
    const before = sent.get(nodeID) ?? nothing()
    sent.set(nodeID, { cpuCount: before.cpuCount + 2, memoryMB: before.memoryMB + 1024 })
  }
  const counts = [...sent.values()].map(({ cpuCount }) => cpuCount / 2)
  assert.equal(counts.length, 10)
  assert.ok(Math.max(...counts) - Math.min(...counts) <= 10, counts.join(' '))
})

test('a sandbox with GPUs goes to a node with enough free GPUs, and never to one that has none', () => {
  const gpus = (free: number, mostPerSandbox = 2) => ({ load: { gpus: { free, mostPerSandbox } } })
  const nodes = [node('none'), node('busy', gpus(0)), node('free', gpus(2)), node('small', gpus(1, 1))]
  const ranked = rankNodes(nodes, { ...demand, gpuCount: 2 }, { sentTo: nothing, drawBelow: first })
  assert.deepEqual(
    ranked.map(({ node: { nodeID }, hasCapacity }) => [nodeID, hasCapacity]),
    [
      ['free', true],
      ['busy', false],
    ],
  )
  const sent = (nodeID: string) => (nodeID === 'free' ? { ...nothing(), gpuCount: 1 } : nothing())
  assert.equal(
    rankNodes(nodes, { ...demand, gpuCount: 2 }, { sentTo: sent, drawBelow: first })[0]!.hasCapacity,
    false,
  )
  assert.equal(rankNodes(nodes, demand, { sentTo: nothing, drawBelow: first }).length, 4)
})

test('a node that this one cannot reach comes after all others, whatever it has', () => {
  const nodes = [
    node('a', { load: { warmTemplates: ['t'] } }),
    node('b', { load: { freeCPU: 0 } }),
    node('c'),
  ]
  const isReachable = ({ nodeID }: ClusterNode) => nodeID !== 'a'
  const ranked = rankNodes(nodes, demand, { sentTo: nothing, isReachable, drawBelow: first })
  assert.deepEqual(
    ranked.map((one) => one.node.nodeID),
    ['c', 'b', 'a'],
  )
})
