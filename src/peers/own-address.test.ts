import assert from 'node:assert/strict'
import test from 'node:test'
import type { ClusterNode } from '../core/cluster/node.ts'
import { Reachability } from '../core/cluster/reachability.ts'
import { SecretVault } from '../core/secret/vault.ts'
import { systemClock } from '../lib/clock.ts'
import { requireOwnAddress } from './own-address.ts'
import { PeerConnections } from './peer-connections.ts'
import { TestPeers } from './peer-fixture.ts'
import { openPeerIdentity } from './peer-identity.ts'
import { PeerWatch } from './peer-watch.ts'

const noNodes = { list: async () => [] }

test('a node does not join with an address at which another node answers, and is told which', async (t) => {
  const peers = new TestPeers(t)
  const one = await peers.start('one')
  const identity = await openPeerIdentity(peers, new SecretVault('a'.repeat(64)), 'new')
  const address = `127.0.0.1:${one.inner.port}`
  await assert.rejects(
    requireOwnAddress(noNodes, identity, { nodeID: 'new', address }),
    /WARREN_PEER_ADDRESS=127\.0\.0\.1:\d+\. At that address answers node one\./,
  )
  // A process of its own that is about to end, and an address where nobody listens yet.
  await requireOwnAddress(noNodes, one.identity, { nodeID: 'one', address })
  await requireOwnAddress(noNodes, identity, { nodeID: 'new', address: '127.0.0.1:9' })
})

test('a node does not join with an address at which a server of another cluster answers', async (t) => {
  const one = await new TestPeers(t).start('one')
  const identity = await openPeerIdentity(new TestPeers(t), new SecretVault('b'.repeat(64)), 'new')
  const self = { nodeID: 'new', address: `127.0.0.1:${one.inner.port}` }
  await assert.rejects(
    requireOwnAddress(noNodes, identity, self),
    /At that address answers a server of another cluster/,
  )
})

test('a node does not join with the address of a living node; that of an away node is free', async (t) => {
  const identity = await openPeerIdentity(new TestPeers(t), new SecretVault('a'.repeat(64)), 'new')
  const self = { nodeID: 'new', address: '127.0.0.1:9' }
  const other = (silentMs: number) => ({
    list: async () => [{ nodeID: 'old', address: '127.0.0.1:9', silentMs } as ClusterNode],
  })
  await assert.rejects(requireOwnAddress(other(0), identity, self), /Node old has the same address/)
  await requireOwnAddress(other(60_000), identity, self)
})

test('peers are tried when the operator asks, and again until they are reached', async (t) => {
  const peers = new TestPeers(t)
  const [one, other] = [await peers.start('one'), await peers.start('other')]
  const reachability = new Reachability(systemClock)
  const connections = new PeerConnections(one.identity, reachability)
  t.after(() => connections.close())
  const at = (nodeID: string, address: string) => ({ nodeID, address, silentMs: 0 }) as ClusterNode
  const good = at('other', `127.0.0.1:${other.inner.port}`)
  const wrong = at('third', good.address)
  let nodes = [at('one', '127.0.0.1:9'), good, wrong]
  const watch = new PeerWatch({
    membership: { nodeID: 'one', nodes: async () => nodes, find: async () => undefined },
    connections,
    reachability,
  })
  const [trouble, ...more] = await watch.findTroubles(nodes)
  assert.deepEqual(more, [])
  assert.deepEqual(
    [trouble?.nodeID, trouble?.why],
    ['third', `cannot be reached: node other answers at ${good.address}`],
  )
  const third = await peers.start('third')
  await watch.retry()
  assert.equal(reachability.troubles().length, 1, 'the address has not changed')
  nodes = [good, at('third', `127.0.0.1:${third.inner.port}`)]
  await watch.retry()
  assert.deepEqual(reachability.troubles(), [])
  assert.deepEqual(await watch.findTroubles(nodes), [])
})
