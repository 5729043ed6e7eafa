/** Paused sandboxes of a node that is away: only who may use one makes another node take it over, or learns of it. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ApiNode, openApiCluster } from '../../../test/support/api-cluster.ts'
import { request, until } from '../../../test/support/domain.ts'
import { FakeLayers } from '../../../test/support/fake-layers.ts'
import { header } from '../../contract/constants.ts'
import type { SandboxOptions } from '../../core/sandbox/row/sandbox.ts'
import { MemoryObjectStore } from '../../objects/memory-object-store.ts'
import { ObjectPacks } from '../../objects/packs.ts'

const wish = { memory: true, requireHealthyAgent: false }
const unknownID = 'iaaaaaaaaaaaaaaaaaaaa'

async function open() {
  const objects = new MemoryObjectStore()
  const layers = new FakeLayers()
  const objectStorage = { objects, packs: new ObjectPacks(objects), layers }
  const cluster = await openApiCluster(['one', 'other'], () => ({ ports: { objectStorage } }))
  const [one, other] = cluster.nodes as [ApiNode, ApiNode]
  const { teamID } = await one.teams.createTeam('Beta')
  const { key: strangersKey } = await one.teams.createKey(teamID, 'test')
  return { cluster, one, other, strangersKey, [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose]() }
}

/** On a node that is away from then on. */
async function paused(
  { cluster, other }: Pick<Awaited<ReturnType<typeof open>>, 'cluster' | 'other'>,
  changes: Partial<SandboxOptions> = {},
): Promise<string> {
  const { service, team, stores } = other.fixture
  const options = { ...request().options, ...changes }
  const { sandboxID } = await service.create(team, request({ options }))
  await service.pause(team, sandboxID, wish)
  await until(async () => (await stores.remoteBytes.findPaused(sandboxID))?.stored != null)
  cluster.away.add('other')
  return sandboxID
}

const nodeOf = async ({ fixture: { stores } }: ApiNode, sandboxID: string) =>
  (await stores.owners.ownerOf({ kind: 'sandbox', id: sandboxID }))?.nodeID

const requests = [
  ['POST', 'connect', { timeout: 60 }],
  ['POST', 'resume', { timeout: 60 }],
  ['POST', 'pause', {}],
  ['POST', 'timeout', { timeout: 60 }],
  ['POST', 'refreshes', { duration: 60 }],
  ['POST', 'fork', {}],
  ['POST', 'snapshots', {}],
  ['GET', 'logs', undefined],
  ['DELETE', '', undefined],
] as const

test('a stranger cannot move a sandbox of an absent node by the API, and learns nothing about it', async () => {
  await using warren = await open()
  const { cluster, one, other, strangersKey } = warren
  const sandboxID = await paused(warren)
  const { service, team } = other.fixture
  const runs = (await service.create(team, request())).sandboxID
  const strangers: Record<string, string>[] = [{}, { 'X-API-Key': 'e2b_none' }, { 'X-API-Key': strangersKey }]
  const learnNothing = async () => {
    for (const headers of strangers) {
      for (const [method, verb, body] of requests) {
        const ask = async (id: string) => {
          const answer = await one.call(method, `/sandboxes/${id}/${verb}`.replace(/\/$/, ''), {
            headers,
            ...(body && { body }),
          })
          return [answer.status, (await answer.text()).replaceAll(id, 'ID')]
        }
        const expected = await ask(unknownID)
        for (const id of [sandboxID, runs]) assert.deepEqual(await ask(id), expected, `${method} ${verb}`)
      }
    }
  }
  await learnNothing()
  assert.equal(await nodeOf(one, sandboxID), 'other')
  // It has just died, and does not count as away yet.
  cluster.away.clear()
  const address = cluster.addresses.get('other')!
  cluster.addresses.set('other', '127.0.0.1:9')
  await learnNothing()
  cluster.addresses.set('other', address)
  cluster.away.add('other')
  const away = await one.call('DELETE', `/sandboxes/${runs}`)
  assert.deepEqual([away.status, await nodeOf(one, runs)], [503, 'other'], 'its team is told')
})

test('a request of its own team makes the node that serves it take the sandbox over', async () => {
  await using warren = await open()
  const { one } = warren
  const sandboxID = await paused(warren)
  const answer = await one.call('POST', `/sandboxes/${sandboxID}/connect`, { body: { timeout: 60 } })
  assert.equal(answer.status, 201)
  assert.equal(await nodeOf(one, sandboxID), 'one')
})

test('a paused sandbox with a volume waits for its node, and its team gets that as the reason', async () => {
  await using warren = await open()
  const { one, other } = warren
  const { volumes, team } = other.fixture
  const { volumeID, name } = await volumes.create(team, 'data')
  const sandboxID = await paused(warren, { volumeMounts: [{ volumeID, name, path: '/mnt/data' }] })
  for (const [method, path, body] of [
    ['POST', `/sandboxes/${sandboxID}/connect`, { timeout: 60 }],
    ['DELETE', `/sandboxes/${sandboxID}`, undefined],
  ] as const) {
    const answer = await one.call(method, path, body && { body })
    assert.equal(answer.status, 503)
    assert.match(await answer.text(), /is on node other, which has given no sign of life/)
  }
  assert.equal(await nodeOf(one, sandboxID), 'other')
})

test('traffic takes over only a sandbox that it may resume, and only with the tokens that this needs', async () => {
  await using warren = await open()
  const { cluster, one, other } = warren
  const { tokens } = other.fixture
  const open80 = await paused(warren, { autoResume: true })
  cluster.away.clear()
  const closed = await paused(warren, { autoResume: true, network: { allowPublicTraffic: false } })
  cluster.away.clear()
  const asleep = await paused(warren)
  const ask = async (id: string, port: number, headers: Record<string, string> = {}) => {
    const named = { 'E2b-Sandbox-Id': id, 'E2b-Sandbox-Port': String(port) }
    const answer = await fetch(`${one.url}/`, { headers: { ...named, ...headers } })
    return [answer.status, (await answer.text()).replaceAll(id, 'ID')]
  }
  const unknown = await ask(unknownID, 80)
  assert.deepEqual(await ask(asleep, 80), unknown)
  assert.deepEqual(await ask(asleep, 49983, { [header.accessToken]: tokens.agent(asleep) }), unknown)
  assert.equal((await ask(closed, 80))[0], 403)
  assert.equal((await ask(closed, 80, { [header.trafficToken]: 'wrong' }))[0], 403)
  for (const id of [open80, closed]) await ask(id, 49983, { [header.accessToken]: 'wrong' })
  for (const id of [asleep, closed, open80]) assert.equal(await nodeOf(one, id), 'other', id)
  await ask(open80, 80)
  await ask(closed, 80, { [header.trafficToken]: tokens.traffic(closed) })
  for (const id of [closed, open80]) assert.equal(await nodeOf(one, id), 'one')
})

test('a sandbox that moves to another node during a request is not reported as gone', async () => {
  await using warren = await open()
  const { cluster, one, other, strangersKey } = warren
  const sandboxID = await paused(warren)
  cluster.away.clear()
  const { faults } = other.fixture
  faults.before = async (method) => {
    if (method === 'find')
      await one.fixture.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'other' })
  }
  const kill = (key: string) =>
    other.call('DELETE', `/sandboxes/${sandboxID}`, { headers: { 'X-API-Key': key } })
  const answer = await kill(other.key)
  assert.deepEqual([answer.status, answer.headers.get('retry-after')], [503, '1'])
  assert.match(await answer.text(), /is moving to another node/)
  assert.equal((await kill(strangersKey)).status, 404)
  assert.equal((await kill(other.key)).status, 204, 'it is asked of that node')
})
