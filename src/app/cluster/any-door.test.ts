/** What concerns several nodes can be asked at the door of any of them. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { type ApiNode, openApiCluster } from '../../../test/support/api-cluster.ts'
import { gate, request, turning, until } from '../../../test/support/domain.ts'
import { loseSandbox } from '../../../test/support/lost-sandbox.ts'
import { hopHeader } from '../../contract/constants.ts'
import type { BuiltInTemplate } from '../../contract/rest/built-in.ts'
import type { PruneReport } from '../../contract/rest/prune.ts'
import { NodeDirectory } from '../../core/cluster/node-directory.ts'
import type { BuiltInRecipe } from '../../core/template/built-in-templates.ts'
import { AppError } from '../../lib/app-error.ts'
import { aNode } from '../../store/suite/nodes.ts'
import { claimPaused, storePaused } from '../../store/suite/rows.ts'

const create = async ({ fixture: { service, team } }: ApiNode): Promise<string> =>
  (await service.create(team, request())).sandboxID

const stateOf = async ({ fixture }: ApiNode, sandboxID: string) =>
  (await fixture.stores.owners.findSandbox(sandboxID))?.state

test('all sandboxes of a team are killed on every node', async () => {
  await using cluster = await openApiCluster()
  const [one, other] = cluster.nodes as [ApiNode, ApiNode]
  const made = [await create(one), await create(other), await create(other)]
  const answer = await one.callAsAdmin('POST', '/admin/teams/alpha/sandboxes/kill')
  assert.deepEqual(await answer.json(), { killedCount: 3, failedCount: 0 })
  for (const id of made) assert.equal(await stateOf(one, id), 'ended')
})

test('a sandbox that moves while all of its team are killed, or its team is deleted, is killed too', async () => {
  for (const [method, path, status] of [
    ['POST', '/admin/teams/alpha/sandboxes/kill', 200],
    ['DELETE', '/admin/teams/alpha?force=true', 204],
  ] as const) {
    await using cluster = await openApiCluster()
    const [one, other] = cluster.nodes as [ApiNode, ApiNode]
    const sandboxID = await create(other)
    const { service, team, stores } = other.fixture
    await service.pause(team, sandboxID, { memory: true, requireHealthyAgent: false })
    const paused = (await stores.sandboxes.find(sandboxID))!
    const listUnended = stores.sandboxes.listUnended.bind(stores.sandboxes)
    stores.sandboxes.listUnended = async () => {
      stores.sandboxes.listUnended = listUnended
      // The node that was asked has done its part, and takes the sandbox now.
      await storePaused(stores, paused, { at: 1, needs: null })
      assert.ok(await claimPaused(one.fixture.stores, sandboxID, paused.snapshot!.name))
      return listUnended()
    }
    const answer = await one.callAsAdmin(method, path)
    assert.equal(answer.status, status, await answer.clone().text())
    if (status === 200) assert.deepEqual(await answer.json(), { killedCount: 1, failedCount: 0 })
    assert.notEqual(await stateOf(one, sandboxID), 'paused')
  }
})

test('sandboxes and builds of a team on an absent node count as failed, and stay', async () => {
  await using cluster = await openApiCluster()
  const [one, other] = cluster.nodes as [ApiNode, ApiNode]
  const sandboxID = await create(other)
  await other.call('POST', '/v3/templates', { body: { name: 'mine', cpuCount: 1, memoryMB: 512 } })
  cluster.away.add('other')
  const kill = await one.callAsAdmin('POST', '/admin/teams/alpha/sandboxes/kill')
  assert.deepEqual(await kill.json(), { killedCount: 0, failedCount: 1 })
  assert.equal(await stateOf(one, sandboxID), 'running')
  const cancel = await one.callAsAdmin('POST', '/admin/teams/alpha/builds/cancel')
  assert.deepEqual(await cancel.json(), { cancelledCount: 0, failedCount: 1 })
  cluster.away.clear()
  const again = await one.callAsAdmin('POST', '/admin/teams/alpha/builds/cancel')
  assert.deepEqual(await again.json(), { cancelledCount: 1, failedCount: 0 })
})

test('a team is deleted by force with its sandboxes, volumes and templates of all nodes', async () => {
  await using cluster = await openApiCluster()
  const [one, other] = cluster.nodes as [ApiNode, ApiNode]
  await create(other)
  for (const node of [one, other]) {
    const made = await node.call('POST', '/volumes', { body: { name: `of-${node.nodeID}` } })
    assert.equal(made.status, 201)
  }
  await other.call('POST', '/v3/templates', { body: { name: 'mine', cpuCount: 1, memoryMB: 512 } })
  const refused = await one.callAsAdmin('DELETE', '/admin/teams/alpha')
  assert.equal(refused.status, 409)
  cluster.away.add('other')
  const away = await one.callAsAdmin('DELETE', '/admin/teams/alpha?force=true')
  assert.equal(away.status, 409)
  assert.match(
    await away.text(),
    /1 sandboxes, 1 templates and snapshots, and 1 volumes: the nodes other are away/,
  )
  cluster.away.clear()
  assert.equal((await one.callAsAdmin('DELETE', '/admin/teams/alpha?force=true')).status, 204)
  assert.equal(await other.fixture.stores.teams.findTeam('alpha'), undefined)
  for (const { fixture } of [one, other]) assert.deepEqual(await fixture.volumeDisks.list(), [])
})

test("a door reaches other nodes' data without the database, and does not show clients how", async () => {
  await using cluster = await openApiCluster()
  const [one, other] = cluster.nodes as [ApiNode, ApiNode]
  cluster.statuses.set('one', 'draining')
  const answer = await one.call('POST', '/v2/sandboxes', { body: { templateID: 'base' } })
  const { sandboxID } = (await answer.json()) as { sandboxID: string }
  const forked = await one.call('POST', `/sandboxes/${sandboxID}/fork`, { body: { count: 2 } })
  const forks = (await forked.json()) as { sandbox: { sandboxID: string } }[]
  for (const { headers } of [answer, forked]) assert.equal(headers.get(hopHeader.made), null)
  one.fixture.stores.owners.ownerOf = () => Promise.reject(new AppError('unavailable', 'No database.'))
  const made = [sandboxID, ...forks.map(({ sandbox }) => sandbox.sandboxID)]
  assert.equal(made.length, 3)
  for (const id of made) {
    assert.equal(await stateOf(other, id), 'running')
    const extended = await one.call('POST', `/sandboxes/${id}/timeout`, { body: { timeout: 60 } })
    assert.equal(extended.status, 204)
  }
})

test('the results of pruning on all nodes are added up, and an absent node is named', async () => {
  await using cluster = await openApiCluster()
  const [one] = cluster.nodes as [ApiNode]
  const both = (await (await one.callAsAdmin('POST', '/admin/prune', {})).json()) as PruneReport
  assert.deepEqual([both.layers, both.bytes, both.missingNodes], [{ count: 4, bytes: 6e6 }, 6e6, undefined])
  cluster.away.add('other')
  const own = (await (await one.callAsAdmin('POST', '/admin/prune', { dryRun: true })).json()) as PruneReport
  assert.deepEqual([own.bytes, own.dryRun, own.missingNodes], [3e6, true, ['other']])
})

test('a snapshot in quarantine on one node is recovered and deleted through the door of another', async () => {
  await using cluster = await openApiCluster()
  const [one, other] = cluster.nodes as [ApiNode, ApiNode]
  const { sandboxID, snapshotName } = await loseSandbox(other.fixture)
  const recovered = await one.callAsAdmin('POST', `/admin/quarantine/${snapshotName}/recover`)
  assert.deepEqual(await recovered.json(), { sandboxID, teamID: one.fixture.team.teamID })
  assert.equal(await stateOf(one, sandboxID), 'paused')
  const unwanted = await loseSandbox(other.fixture)
  const path = `/admin/quarantine/${unwanted.snapshotName}`
  assert.equal((await one.callAsAdmin('DELETE', path)).status, 204)
  assert.equal(other.fixture.driver.world.snapshots.has(unwanted.snapshotName), false)
  assert.equal((await one.callAsAdmin('DELETE', path)).status, 404)
  assert.equal((await one.call('POST', `/admin/quarantine/${snapshotName}/recover`)).status, 401)
})

test('a lost volume whose disk is on one node is recovered through the door of another', async () => {
  await using cluster = await openApiCluster()
  const [one, other] = cluster.nodes as [ApiNode, ApiNode]
  const made = await other.call('POST', '/volumes', { body: { name: 'data' } })
  const { volumeID } = (await made.json()) as { volumeID: string }
  const node = aNode('other')
  await one.fixture.stores.nodes.join(node)
  await one.fixture.stores.nodes.leave(node)
  await one.fixture.stores.nodes.forget('other', 1, 0)
  assert.equal((await one.call('GET', `/volumes/${volumeID}`)).status, 404)
  await other.fixture.volumes.reconcile()
  const path = '/admin/lost-volumes'
  const [entry] = (await (await one.callAsAdmin('GET', path)).json()) as { nodeID: string; foundAt: string }[]
  assert.deepEqual([entry?.nodeID, typeof entry?.foundAt], ['other', 'string'])
  for (const attempt of ['first', 'repeated']) {
    const recovered = await one.callAsAdmin('POST', `${path}/${volumeID}/recover`, {})
    assert.deepEqual(
      await recovered.json(),
      { volumeID, name: 'data', teamID: one.fixture.team.teamID },
      attempt,
    )
  }
  assert.equal((await one.call('GET', `/volumes/${volumeID}`)).status, 200)
  assert.equal((await one.call('GET', path)).status, 401)
  assert.equal((await one.call('POST', `${path}/${volumeID}/recover`, { body: {} })).status, 401)
})

test('two requests with one idempotency key at two doors at once make one sandbox', async () => {
  await using cluster = await openApiCluster()
  const [one, other] = cluster.nodes as [ApiNode, ApiNode]
  const { clock, team, driver } = one.fixture
  const blocked = gate()
  driver.beforeStarted = () => blocked.opened
  const claim = { key: 'same', requestHash: 'hash' }
  const first = one.fixture.service.create(team, request(), claim)
  while ((await one.fixture.stores.sandboxes.listUnended()).length === 0) await new Promise(setImmediate)
  const second = turning(clock, other.fixture.service.create(team, request(), claim))
  setTimeout(blocked.open, 20)
  assert.equal((await second).sandboxID, (await first).sandboxID)
  assert.equal((await second).state, 'running')
  assert.deepEqual(await other.fixture.driver.list(), [])
})

test('a log is read where it was written, also when its sandbox has ended', async () => {
  await using cluster = await openApiCluster()
  const [one, other] = cluster.nodes as [ApiNode, ApiNode]
  const sandboxID = await create(other)
  const entry = { sequence: 1, at: 1, level: 'info', message: 'written there', fields: {} } as const
  await other.logs.append(sandboxID, [entry])
  const read = async () => {
    const answer = await one.call('GET', `/v2/sandboxes/${sandboxID}/logs`)
    return { status: answer.status, text: await answer.text() }
  }
  assert.match((await read()).text, /written there/)
  await one.call('DELETE', `/sandboxes/${sandboxID}`)
  assert.match((await read()).text, /written there/)
  cluster.away.add('other')
  assert.equal((await read()).status, 503)
  assert.equal((await one.call('DELETE', `/sandboxes/${sandboxID}`)).status, 404)
  // Forgotten, with what it had.
  cluster.addresses.delete('other')
  assert.deepEqual(await read(), { status: 200, text: '{"logs":[]}' })
})

test('a Warren that shares the database but is not in the cluster is named in the answer', async () => {
  await using cluster = await openApiCluster()
  const [one, other] = cluster.nodes as [ApiNode, ApiNode]
  const sandboxID = await create(other)
  cluster.addresses.delete('other')
  const answer = await one.call('DELETE', `/sandboxes/${sandboxID}`)
  assert.equal(answer.status, 421)
  assert.match(await answer.text(), /is on node other, .* that one has no WARREN_PEER_ADDRESS/)
})

type RequestedBuild = { templateID: string; buildID: string }

const requestBuild = async (node: ApiNode, name: string): Promise<RequestedBuild> =>
  (await node.call('POST', '/v3/templates', { body: { name, cpuCount: 1, memoryMB: 512 } })).json() as never

const startBuild = (node: ApiNode, { templateID, buildID }: RequestedBuild, body: object) =>
  node.call('POST', `/v2/templates/${templateID}/builds/${buildID}`, { body })

test('a build from the template of another node is carried out there', async () => {
  await using cluster = await openApiCluster(['one', 'other', 'third'])
  const [one, other, third] = cluster.nodes as [ApiNode, ApiNode, ApiNode]
  await startBuild(other, await requestBuild(other, 'below'), { fromImage: 'debian' })
  // Requested here and there, and started at a door that has neither.
  for (const [door, requestedAt] of [
    [one, one],
    [third, one],
  ] as const) {
    const requested = await requestBuild(requestedAt, `above-${door.nodeID}`)
    const steps = [{ type: 'RUN', args: ['true'] }]
    assert.equal((await startBuild(door, requested, { fromTemplate: 'below', steps })).status, 202)
    assert.equal(other.jobs.at(-1)?.build.buildID, requested.buildID)
    const owner = await one.fixture.stores.owners.ownerOf({ kind: 'build', id: requested.buildID })
    assert.equal(owner?.nodeID, 'other')
  }
  assert.deepEqual([one.jobs.length, third.jobs.length], [0, 0])
})

test('a built-in template is built on one node, and every door shows its progress', async () => {
  const recipe: BuiltInRecipe = {
    alias: 'thing-v1',
    name: 'thing',
    about: 'A thing.',
    seconds: 90,
    sizes: { cpuCount: 1, memoryMB: 512, diskMB: 1024 },
    request: async () => ({
      from: { image: 'debian:12' },
      steps: [],
      startCmd: null,
      readyCmd: null,
      force: false,
    }),
  }
  const blocked = gate()
  const made: string[] = []
  await using cluster = await openApiCluster(['one', 'other'], (nodeID) => ({
    ports: {
      recipes: [recipe],
      createBuilder: () => ({
        run: () => {
          made.push(nodeID)
          return blocked.opened.then(() => Promise.reject(new Error('no network')))
        },
      }),
    },
  }))
  const [one, other] = cluster.nodes as [ApiNode, ApiNode]
  const create = async (node: ApiNode) => {
    const answer = await node.call('POST', '/v2/sandboxes', { body: { templateID: 'thing-v1' } })
    return { status: answer.status, after: answer.headers.get('retry-after'), text: await answer.text() }
  }
  const path = '/admin/built-in-templates/thing'
  const progress = async (node: ApiNode) =>
    ((await (await node.callAsAdmin('GET', path)).json()) as { status: string }).status
  const first = await create(one)
  assert.deepEqual([first.status, first.after], [503, '90'])
  assert.deepEqual(await create(other), first)
  const added = await Promise.all([one, other].map((node) => node.callAsAdmin('POST', path, {})))
  const [build, same] = await Promise.all(added.map((answer) => answer.json()))
  assert.deepEqual(build, same)
  assert.deepEqual(made, ['one'])
  for (const node of [one, other]) assert.equal(await progress(node), 'building')
  const ofTeams = '/built-in-templates'
  for (const node of [one, other]) {
    const [, listed] = (await (await node.call('GET', ofTeams)).json()) as BuiltInTemplate[]
    assert.deepEqual([listed?.name, listed?.ready, listed?.build?.status], ['thing', false, 'building'])
    const joined = await node.call('POST', `${ofTeams}/thing`, {})
    assert.deepEqual([joined.status, await joined.json()], [202, build])
    const followed = await (await node.call('GET', `${ofTeams}/thing`)).json()
    assert.match(JSON.stringify(followed), /"status":"building".*Building template/)
  }
  assert.deepEqual(made, ['one'])
  blocked.open()
  for (const node of [one, other]) await until(async () => (await progress(node)) === 'error')
  assert.match((await create(other)).text, /is being built.*The previous attempt failed: .*no network/)
})

test('a volume that is requested at a draining node is made on another', async () => {
  await using cluster = await openApiCluster(['one', 'other', 'third'])
  const [one] = cluster.nodes as [ApiNode]
  cluster.statuses.set('one', 'draining').set('third', 'draining')
  for (let count = 0; count < 3; count++) {
    const made = await one.call('POST', '/volumes', { body: { name: `volume-${count}` } })
    assert.equal(made.status, 201)
    const { volumeID } = (await made.json()) as { volumeID: string }
    const owner = await one.fixture.stores.owners.ownerOf({ kind: 'volume', id: volumeID })
    assert.equal(owner?.nodeID, 'other')
  }
  cluster.away.add('other')
  const rejected = await one.call('POST', '/volumes', { body: { name: 'one-more' } })
  assert.deepEqual([rejected.status, rejected.headers.get('retry-after')], [503, '5'])
})

test('a build whose files are on one node and whose template is on another is rejected with the remedy', async () => {
  await using cluster = await openApiCluster()
  const [one, other] = cluster.nodes as [ApiNode, ApiNode]
  await startBuild(other, await requestBuild(other, 'below'), { fromImage: 'debian' })
  const requested = await requestBuild(one, 'above')
  const steps = [{ type: 'COPY', args: ['a', 'b'], filesHash: 'f'.repeat(64) }]
  const answer = await startBuild(one, requested, { fromTemplate: 'below', steps })
  assert.equal(answer.status, 409)
  assert.match(await answer.text(), /is on node other only, .* on node one\. .*object store/)
  cluster.away.add('other')
  const away = await startBuild(one, requested, { fromTemplate: 'below', steps: [] })
  assert.equal(away.status, 503)
})

test("a signed file URL finds its sandbox at any door, without the sandbox's id", async (t) => {
  await using cluster = await openApiCluster(['one', 'other', 'third'])
  const [one, other] = cluster.nodes as [ApiNode, ApiNode]
  const sandboxID = await create(other)
  const agent = createServer((asked, response) => asked.resume().on('end', () => response.end(asked.url)))
  await once(agent.listen(0, '127.0.0.1'), 'listening')
  t.after(() => agent.close().closeAllConnections())
  const { port } = agent.address() as AddressInfo
  const { routes, tokens } = other.fixture
  const route = routes.get(sandboxID)!
  routes.remove(sandboxID, route.runID)
  routes.set({ ...route, endpoint: () => ({ host: '127.0.0.1', port }) })
  const urlFor = (operation: 'read' | 'write', token: string) => {
    const digest = createHash('sha256').update(`/tmp/a:${operation}:user:${token}`).digest('base64')
    const signature = `v1_${digest.replace(/=+$/, '')}`
    return `/files?${new URLSearchParams({ path: '/tmp/a', username: 'user', signature })}`
  }
  const good = urlFor('read', tokens.agent(sandboxID))
  for (let times = 0; times < 2; times++) {
    const answer = await fetch(`${one.url}${good}`)
    assert.deepEqual([answer.status, await answer.text()], [200, good])
  }
  const write = urlFor('write', tokens.agent(sandboxID))
  assert.equal(await (await fetch(`${one.url}${write}`, { method: 'POST', body: 'x' })).text(), write)
  assert.equal((await fetch(`${one.url}${urlFor('read', 'wrong')}`)).status, 401)
  cluster.away.add('other')
  assert.equal((await fetch(`${one.url}${urlFor('write', 'wrong')}`)).status, 401)
})

test('a node is listed with the builds on its disk', async () => {
  await using cluster = await openApiCluster(['one'])
  const [one] = cluster.nodes as [ApiNode]
  const { build } = await one.fixture.catalog.resolve(one.fixture.team, 'base')
  await one.fixture.stores.nodes.join(aNode('one'))
  const directory = new NodeDirectory({
    ...one.fixture.stores,
    listLostVolumes: async () => [],
    readSelf: undefined,
    clock: one.fixture.clock,
  })
  const fetched = {
    ...(await directory.get('one')),
    load: { ...aNode('one').load, buildsAtHand: ['fetched'] },
  }
  assert.deepEqual(await directory.cachedBuilds(fetched), [build.buildID, 'fetched'])
  const shown = (await (await one.callAsAdmin('GET', '/nodes/node')).json()) as { cachedBuilds: string[] }
  assert.deepEqual(shown.cachedBuilds, [])
})
