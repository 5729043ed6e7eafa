import assert from 'node:assert/strict'
import test from 'node:test'
import { systemClock } from '../../lib/clock.ts'
import type { ClusterNode } from './node.ts'
import { NodeDirectory, type NodeDirectoryParts } from './node-directory.ts'

const node = (nodeID: string, address: string, silentMs = 0, clockOffsetMs = 0) =>
  ({ nodeID, address, silentMs, load: { clockOffsetMs } }) as ClusterNode

async function problems(
  nodes: ClusterNode[],
  findTroubles: NodeDirectoryParts['findTroubles'] = async () => [],
  lost: { nodeID: string; foundAt: number | null }[] = [],
) {
  const directory = new NodeDirectory({
    nodes: { list: async () => nodes } as unknown as NodeDirectoryParts['nodes'],
    owners: { readyBuildsOf: async () => [] },
    listLostVolumes: async () => lost,
    readSelf: undefined,
    findTroubles,
    clock: systemClock,
  })
  return (await directory.list()).map(({ problem }) => problem)
}

test('two living nodes with one address are each shown with the other', async () => {
  const [first, second, third] = await problems([node('a', 'x:1'), node('b', 'x:1'), node('c', 'y:1')])
  assert.match(first!, /^Node b has the same address x:1: set WARREN_PEER_ADDRESS/)
  assert.match(second!, /^Node a has the same address x:1/)
  assert.equal(third, undefined)
})

test('a machine may have the address of a node that is away, whose row is still there', async () => {
  assert.deepEqual(await problems([node('a', 'x:1', 60_000), node('b', 'x:1')]), [undefined, undefined])
})

test('a node that the asked one cannot reach is shown with the reason, and only living ones are tried', async () => {
  const tried: string[] = []
  const shown = await problems(
    [node('a', 'x:1'), node('b', 'y:1'), node('c', 'z:1', 60_000)],
    async (nodes) => {
      tried.push(...nodes.map(({ nodeID }) => nodeID))
      return [{ nodeID: 'b', address: 'y:1', why: 'does not answer at y:1', since: 0 }]
    },
  )
  assert.deepEqual(tried, ['a', 'b'])
  assert.deepEqual(shown, [
    undefined,
    'This node does not answer at y:1, as seen from the node that was asked.',
    undefined,
  ])
})

test('a node that has disks of lost volumes is shown with the command that lists them', async () => {
  const lost = [
    { nodeID: 'a', foundAt: 1 },
    { nodeID: 'a', foundAt: 2 },
    { nodeID: 'b', foundAt: null },
  ]
  const [first, ...others] = await problems([node('a', 'x:1'), node('b', 'y:1')], undefined, lost)
  assert.match(first!, /^This node has the disks of 2 volumes that were lost .* `warren volume lost`/)
  assert.deepEqual(others, [undefined])
})

test('a living node whose clock is wrong is shown with the difference', async () => {
  const nodes = [node('a', 'x:1', 0, -4200), node('b', 'y:1', 0, 1900), node('c', 'z:1', 60_000, 9000)]
  const [first, ...others] = await problems(nodes)
  assert.match(first!, /^The clock of this machine is 4\.2 s behind the clock of the database/)
  assert.deepEqual(others, [undefined, undefined])
})
