import assert from 'node:assert/strict'
import test from 'node:test'
import { SandboxNotHere, sandboxNotFound } from '../sandbox/row/errors.ts'
import type { ClusterNode } from './node.ts'
import type { Owned, Owner } from './owner-store.ts'
import { Owners } from './owners.ts'
import { chooseCourse, RequestRouter } from './request-router.ts'

const sandbox: Owned = { kind: 'sandbox', id: 'a' }
const nodeOf = (nodeID: string, silentMs = 0) => ({ nodeID, silentMs }) as ClusterNode

test('a node answers for its own and for unknown sandboxes, and passes on requests for those of a live node', () => {
  const courseOf = (owner: Owner | undefined, node?: ClusterNode) =>
    chooseCourse('one', sandbox, owner, node).kind
  assert.equal(courseOf(undefined), 'answer')
  assert.equal(courseOf({ nodeID: 'one', isMovable: true }), 'answer')
  for (const isMovable of [true, false])
    assert.equal(courseOf({ nodeID: 'other', isMovable }, nodeOf('other', 10_000)), 'pass on')
})

const kinds = ['log', 'build', 'volume', 'quarantined'] as const

test('of an absent node, only a paused sandbox in the object store is taken over', () => {
  const courseOf = (what: Owned, isMovable: boolean) =>
    chooseCourse('one', what, { nodeID: 'other', isMovable }, nodeOf('other', 10_001)).kind
  assert.equal(courseOf(sandbox, true), 'take over')
  assert.equal(courseOf(sandbox, false), 'tell that it is away')
  for (const kind of kinds) assert.equal(courseOf({ kind, id: 'a' }, true), 'tell that it is away')
})

test('any node answers for a sandbox whose node has no row, except for a live one on a Warren out of reach', () => {
  const courseOf = (kind: Owned['kind'], isMovable = false) =>
    chooseCourse('one', { kind, id: 'a' }, { nodeID: 'other', isMovable }, undefined).kind
  assert.equal(courseOf('sandbox', true), 'take over')
  for (const kind of ['sandbox', 'volume'] as const)
    assert.equal(courseOf(kind), 'tell that it is out of reach')
  for (const kind of ['log', 'build', 'quarantined'] as const) assert.equal(courseOf(kind), 'answer')
})

/** A node `one` that remembers what it reads of the owner `row`. */
function newRouter(row: { owner: Owner }, nodes: ClusterNode[]) {
  const state = { reads: 0, claimed: [] as string[] }
  const router = new RequestRouter({
    membership: { nodeID: 'one', find: async (id) => nodes.find(({ nodeID }) => nodeID === id) },
    owners: new Owners(
      {
        ownerOf: async () => {
          state.reads++
          return row.owner
        },
      },
      'one',
    ),
    takeOver: async (id, { from }) => {
      assert.equal(from, row.owner.nodeID)
      state.claimed.push(id)
      row.owner = { nodeID: 'one', isMovable: false }
      return true
    },
    settled: async () => {},
  })
  return { router, state }
}

test('a remembered owner is asked without a look at the row, and looked up again before it counts as absent', async () => {
  const row = { owner: { nodeID: 'other', isMovable: true } }
  const nodes = [nodeOf('other'), nodeOf('third')]
  const { router, state } = newRouter(row, nodes)
  for (let times = 0; times < 3; times++)
    assert.equal(await router.route(sandbox, { isFromPeer: false }), nodes[0])
  assert.equal(state.reads, 1)
  row.owner = { nodeID: 'third', isMovable: true }
  nodes[0]!.silentMs = 60_000
  assert.equal(await router.route(sandbox, { isFromPeer: false }), nodes[1])
  assert.deepEqual(state.claimed, [])
})

test('a request for a sandbox that was taken over is not passed on when its earlier node is back', async () => {
  const nodes = [nodeOf('other', 60_000)]
  const { router, state } = newRouter({ owner: { nodeID: 'other', isMovable: true } }, nodes)
  assert.equal(await router.route(sandbox, { isFromPeer: false }), 'absent')
  assert.deepEqual(state.claimed, [], 'it is not known yet whether who asks may use it')
  await router.takeOver('a', { memory: true })
  nodes[0]!.silentMs = 0
  assert.equal(await router.route(sandbox, { isFromPeer: false }), 'here')
  assert.deepEqual(state.claimed, ['a'])
})

test('a peer that asks the wrong node gets an error, and that node never takes over for it', async () => {
  const { router, state } = newRouter({ owner: { nodeID: 'other', isMovable: true } }, [
    nodeOf('other', 60_000),
  ])
  assert.equal(await router.route(sandbox, { isFromPeer: true }), 'misdirected')
  assert.deepEqual(state.claimed, [])
})

test('a sandbox that its returned owner or another node has by now is not taken from it', async () => {
  const row = { owner: { nodeID: 'other', isMovable: true } }
  const nodes = [nodeOf('other', 60_000), nodeOf('third')]
  const { router, state } = newRouter(row, nodes)
  assert.equal(await router.route(sandbox, { isFromPeer: false }), 'absent')
  row.owner = { nodeID: 'third', isMovable: true }
  assert.equal(await router.takeOver('a', { memory: true }), false)
  row.owner = { nodeID: 'other', isMovable: true }
  nodes[0]!.silentMs = 0
  assert.equal(await router.takeOver('a', { memory: true }), false)
  assert.deepEqual(state.claimed, [])
})

test('a row that came back to this node while a request looked for it is told as moving, and not as missing', async () => {
  const row = { owner: { nodeID: 'one', isMovable: true } }
  const { router } = newRouter(row, [])
  assert.equal(
    await router.whyMissing(sandbox, sandboxNotFound('a')),
    undefined,
    'such as one that is paused',
  )
  assert.equal((await router.whyMissing(sandbox, new SandboxNotHere('a')))?.code, 'unavailable')
  row.owner = { nodeID: 'other', isMovable: true }
  assert.equal((await router.whyMissing(sandbox, sandboxNotFound('a')))?.code, 'unavailable')
})
