import assert from 'node:assert/strict'
import test from 'node:test'
import { isAppError } from '../../lib/app-error.ts'
import { ManualClock } from '../../lib/clock.ts'
import { silentLog } from '../../lib/log.ts'
import { aNode } from '../../store/suite/nodes.ts'
import { Membership } from './membership.ts'
import { type ClusterNode, isUnreachable, type NodeLoad, type NodeStatus } from './node.ts'
import type { JoiningNode, NodeStore, RecordedSign } from './node-store.ts'

/** One row, by a clock that moves with every question. */
class FakeNodes {
  row: { runID: string; seenAt: number; status: NodeStatus } | undefined
  now = 0
  isGone = false
  lists = 0
  readonly loads: NodeLoad[] = []
  readLoad = async () => ({}) as NodeLoad
  /** The clock of the database. */
  time = () => 0
  listedID = 'n'
  /** What the other holder of the id does between two questions. */
  meanwhile = () => {}

  async join({ runID }: JoiningNode): Promise<boolean> {
    this.#pass()
    if (this.row && this.row.runID !== runID && this.now - this.row.seenAt <= 10_000) return false
    this.row = { runID, seenAt: this.now, status: 'ready' }
    return true
  }

  async renew({ runID, load }: Pick<JoiningNode, 'runID' | 'load'>): Promise<RecordedSign | undefined> {
    if (this.isGone) throw new Error('no database')
    if (this.row?.runID !== runID) return undefined
    this.row.seenAt = this.now
    this.loads.push(load)
    return { status: this.row.status, databaseTime: this.time() }
  }

  async find(): Promise<ClusterNode | undefined> {
    const { row } = this
    return (
      row &&
      ({
        nodeID: this.listedID,
        address: 'b:1',
        ...row,
        silentMs: this.now - row.seenAt,
      } as unknown as ClusterNode)
    )
  }

  async list(): Promise<ClusterNode[]> {
    this.lists++
    if (this.isGone) throw new Error('no database')
    return [(await this.find())!]
  }

  #pass(): void {
    this.now += 500
    this.meanwhile()
  }
}

const doNotWait = (_ms: number, action: () => void) => {
  setImmediate(action)
  return () => {}
}

function open(runID = 'mine') {
  const store = new FakeNodes()
  const clock = new ManualClock()
  store.time = () => clock.now()
  const warnings: string[] = []
  const replaced: string[] = []
  let forgotten = 0
  const membership = new Membership({
    nodes: store as unknown as NodeStore,
    self: { nodeID: 'n', runID, address: 'a:1', facts: {} as JoiningNode['facts'] },
    readLoad: () => store.readLoad(),
    onForgotten: async () => void forgotten++,
    onReplaced: ({ message }) => void replaced.push(message),
    clock: { now: () => clock.now(), after: doNotWait },
    log: { ...silentLog, warn: (_, message) => void warnings.push(message ?? '') },
  })
  return { store, clock, membership, warnings, replaced, forgotten: () => forgotten }
}

test('after a crash a node joins again as soon as its last sign of life is old enough', async () => {
  const { store, membership } = open()
  store.row = { runID: 'the process that crashed', seenAt: 0, status: 'draining' }
  await membership.join()
  assert.equal(store.row.runID, 'mine')
  assert.ok(store.now > 10_000)
})

test('a Warren whose node id belongs to a live process does not start, and says why', async () => {
  const { store, membership } = open()
  store.row = { runID: 'the other', seenAt: 0, status: 'ready' }
  store.meanwhile = () => {
    if (store.now % 2000 === 0) store.row!.seenAt = store.now
  }
  await assert.rejects(
    membership.join(),
    (error) => isAppError(error, 'conflict') && /at b:1.*delete node\.json/.test(error.message),
  )
  assert.equal(store.row.runID, 'the other')
})

test('a process whose node id another one took while it was silent is told so once, and gives no sign of life any more', async () => {
  const { store, membership, replaced, forgotten } = open()
  await membership.join()
  store.row = { runID: 'the other', seenAt: 0, status: 'draining' }
  for (let round = 0; round < 3; round++) await membership.renew()
  assert.equal(replaced.length, 1)
  assert.match(replaced[0]!, /^Another Warren, at b:1, .*delete node\.json/)
  assert.equal(forgotten(), 0)
  store.row = undefined
  await membership.renew()
  assert.deepEqual([forgotten(), store.row], [0, undefined])
})

test('a node that was forgotten while it was alive gives up its sandboxes and joins again', async () => {
  const { store, membership, forgotten } = open()
  await membership.join()
  store.row = undefined
  await membership.renew()
  assert.equal(forgotten(), 1)
  assert.equal((store.row as { runID: string } | undefined)?.runID, 'mine')
})

test('while the database does not answer, the last known list of nodes is used', async () => {
  const { store, clock, membership } = open()
  await membership.join()
  assert.equal((await membership.nodes()).length, 1)
  store.isGone = true
  for (let round = 0; round < 5; round++) {
    clock.advance(10_000)
    assert.equal((await membership.nodes()).length, 1)
  }
})

test('the list of nodes is read again only while somebody uses it', async () => {
  const { store, membership } = open()
  await membership.join()
  await membership.nodes()
  const before = store.lists
  for (let round = 0; round < 5; round++) await membership.renew()
  assert.equal(store.lists, before + 1)
})

test('a node that comes back is known within half a second, however often its state is read', async () => {
  const { store, clock, membership } = open()
  store.listedID = 'another'
  await membership.join()
  store.now += 60_000
  clock.advance(10_000)
  assert.ok(isUnreachable((await membership.find('another'))!))
  const before = store.lists
  for (let asked = 0; asked < 10; asked++) assert.ok(isUnreachable((await membership.find('another'))!))
  assert.equal(store.lists, before)
  store.row!.seenAt = store.now
  clock.advance(500)
  assert.equal(isUnreachable((await membership.find('another'))!), false)
})

test('a node that was alive when the database failed does not count as absent afterwards, until it had time for a sign of life', async () => {
  const { store, clock, membership } = open()
  await membership.join()
  await membership.nodes()
  store.isGone = true
  for (let seconds = 0; seconds < 60; seconds += 2) {
    await assert.rejects(membership.renew())
    clock.advance(2000)
    store.now += 2000
  }
  store.isGone = false
  const shown = async () => {
    clock.advance(6000)
    store.now += 6000
    return isUnreachable((await membership.nodes())[0]!)
  }
  assert.equal(await shown(), false)
  assert.equal(await shown(), false)
  assert.equal(await shown(), true)
  assert.equal(membership.steadyForMs, 12_000)
})

test('a node that was absent before the database failed is absent afterwards', async () => {
  const { store, clock, membership } = open()
  store.listedID = 'another'
  await membership.join()
  store.now += 60_000
  clock.advance(10_000)
  assert.ok(isUnreachable((await membership.nodes())[0]!))
  clock.advance(60_000)
  assert.ok(isUnreachable((await membership.nodes())[0]!))
})

test('a wrong clock is logged at the start and told to the others, until it is right again', async () => {
  const { store, clock, membership, warnings } = open()
  let aheadMs = 3500
  store.time = () => clock.now() - aheadMs
  await membership.join()
  assert.equal(warnings.length, 1)
  assert.match(warnings[0]!, /^The clock of this machine is 3\.5 s ahead of the clock of the database/)
  await membership.renew()
  assert.deepEqual(
    store.loads.map(({ clockOffsetMs }) => clockOffsetMs),
    [undefined, 3500],
  )
  assert.equal(warnings.length, 1, 'it is logged once')
  aheadMs = 0
  await membership.renew()
  await membership.renew()
  assert.equal(store.loads.at(-1)?.clockOffsetMs, 0)
})

for (const [how, readLoad] of [
  ['hangs', () => new Promise<NodeLoad>(() => {})],
  ['fails', () => Promise.reject(new Error('no disk'))],
] as const) {
  test(`a node gives signs of life while reading its load ${how}, and soon reports no capacity`, async () => {
    const { store, clock, membership } = open()
    const load = { ...aNode('n').load, warmTemplates: ['base'] }
    store.readLoad = async () => load
    await membership.join()
    store.readLoad = readLoad
    clock.advance(9000)
    await membership.renew()
    assert.deepEqual(store.loads.at(-1), { ...load, clockOffsetMs: 0 })
    clock.advance(2000)
    await membership.renew()
    const { freeCPU, freeMemoryMB, warmTemplates } = store.loads.at(-1)!
    assert.deepEqual([freeCPU, freeMemoryMB, warmTemplates], [0, 0, []])
  })
}
