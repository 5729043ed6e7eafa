import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError, isAppError } from '../../lib/app-error.ts'
import { ManualClock } from '../../lib/clock.ts'
import { silentLog } from '../../lib/log.ts'
import { MemoryObjectStore } from '../../objects/memory-object-store.ts'
import type { ObjectKey, ObjectStore } from '../ports/object-store.ts'
import { guardedObjects, identityKey, readMark, StoreIdentity, WrongObjectStore } from './store-identity.ts'

/** A cluster with its database; `stored` are the keys that its rows say are stored. */
class TestCluster {
  readonly values = new Map<string, string>()
  readonly clock = new ManualClock()
  stored: ObjectKey[] = []

  share = async (name: string, value: string): Promise<string> => {
    if (!this.values.has(name)) this.values.set(name, value)
    return this.values.get(name)!
  }

  findShared = async (name: string) => this.values.get(name)

  /** A node of it whose settings name this place. */
  node(objects: MemoryObjectStore, location = 's3://a/b'): StoreIdentity {
    const rows = { listSomeStored: async () => this.stored }
    return new StoreIdentity({ objects, rows, shared: this, location, clock: this.clock, log: silentLog })
  }

  async store(objects: MemoryObjectStore, key: ObjectKey): Promise<void> {
    await objects.putIfAbsent(key, Buffer.from('bytes'))
    this.stored.push(key)
  }
}

async function keysOf(objects: Pick<ObjectStore, 'list'>): Promise<ObjectKey[]> {
  const keys: ObjectKey[] = []
  for await (const { key } of objects.list('')) keys.push(key)
  return keys
}

const refuses = (identity: StoreIdentity, message: RegExp) =>
  assert.rejects(
    identity.require(),
    (error) => error instanceof WrongObjectStore && message.test(error.message),
  )

test('the first node marks the place, and the others find the mark', async () => {
  const [cluster, objects] = [new TestCluster(), new MemoryObjectStore()]
  const nodes = [cluster.node(objects), cluster.node(objects)]
  await Promise.all(nodes.map((node) => node.require()))
  const mark = await readMark(objects)
  assert.ok(mark)
  assert.deepEqual(
    nodes.map(({ provedID }) => provedID),
    [mark, mark],
  )
})

test('a node that looks at another place uses nothing there, and says what to do', async () => {
  const [cluster, objects, elsewhere] = [new TestCluster(), new MemoryObjectStore(), new MemoryObjectStore()]
  await cluster.node(objects).require()
  await cluster.store(objects, 'layers/one')
  const astray = cluster.node(elsewhere)
  await refuses(astray, /s3:\/\/a\/b has nothing of what this cluster has stored.*WARREN_OBJECT_STORE/)
  const guarded = guardedObjects(elsewhere, astray)
  await assert.rejects(guarded.putIfAbsent('layers/two', Buffer.from('bytes')), WrongObjectStore)
  await assert.rejects(keysOf(guarded), WrongObjectStore)
  assert.deepEqual(await keysOf(elsewhere), [])
})

test('while nothing is stored, only the place that the first node names is used', async () => {
  const [cluster, objects, elsewhere] = [new TestCluster(), new MemoryObjectStore(), new MemoryObjectStore()]
  await cluster.node(objects).require()
  await refuses(
    cluster.node(elsewhere, 's3://a/mistake'),
    /s3:\/\/a\/mistake is not s3:\/\/a\/b, which this cluster uses/,
  )
  assert.deepEqual(await keysOf(elsewhere), [])
})

test('a cluster of an earlier release has no mark: only a place that has what its rows say gets one', async () => {
  const [cluster, objects, elsewhere] = [new TestCluster(), new MemoryObjectStore(), new MemoryObjectStore()]
  await cluster.store(objects, 'layers/one')
  cluster.stored.unshift('layers/removed-meanwhile')
  await refuses(cluster.node(elsewhere), /has nothing of what this cluster has stored/)
  await cluster.node(objects).require()
  await refuses(cluster.node(elsewhere), /has nothing of what this cluster has stored/)
})

test('the place of another cluster is not used', async () => {
  const [cluster, other, objects] = [new TestCluster(), new TestCluster(), new MemoryObjectStore()]
  await other.node(objects).require()
  await refuses(cluster.node(objects), /has the mark of another cluster/)
  await cluster.node(new MemoryObjectStore()).require()
  await refuses(cluster.node(objects), /has the mark of another cluster/)
})

test('a database that was restored from before the mark takes it from the place that has what its rows say', async () => {
  const [cluster, objects] = [new TestCluster(), new MemoryObjectStore()]
  await cluster.store(objects, 'layers/one')
  await cluster.node(objects).require()
  cluster.values.clear()
  await cluster.node(objects).require()
  assert.deepEqual([...cluster.values.values()], [`${await readMark(objects)} s3://a/b`])
})

test('a bucket that was emptied is used again once the operator has put the mark there, or nothing is stored any more', async () => {
  const [cluster, objects] = [new TestCluster(), new MemoryObjectStore()]
  await cluster.node(objects).require()
  await cluster.store(objects, 'layers/one')
  const emptied = new MemoryObjectStore()
  const node = cluster.node(emptied)
  await refuses(node, /write the object s3:\/\/a\/b\/identity with the content [-0-9a-f]{36}\./)
  await emptied.putIfAbsent(identityKey, Buffer.from(`${await readMark(objects)}\n`))
  await refuses(node, /has nothing/)
  cluster.clock.advance(60_000)
  await node.require()
  cluster.stored = []
  await cluster.node(new MemoryObjectStore()).require()
})

test('a store that is away is looked at again with the next use', async () => {
  const [cluster, objects] = [new TestCluster(), new MemoryObjectStore()]
  const identity = cluster.node(objects)
  const readEnd = objects.readEnd.bind(objects)
  objects.readEnd = async () => {
    throw new AppError('unavailable', 'The object store is away.')
  }
  const guarded = guardedObjects(objects, identity)
  await assert.rejects(guarded.size('layers/one'), (error) => isAppError(error, 'unavailable'))
  objects.readEnd = readEnd
  assert.equal(await guarded.size('layers/one'), undefined)
  assert.ok(identity.provedID)
})
