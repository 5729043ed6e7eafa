/** Creates while a node of the cluster cannot be reached, or its answer does not arrive. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ApiNode, openApiCluster } from '../../../test/support/api-cluster.ts'
import { gate, request, turning, until } from '../../../test/support/domain.ts'
import { header } from '../../contract/constants.ts'
import { AppError } from '../../lib/app-error.ts'

type Nodes = [ApiNode, ApiNode, ApiNode]
type Cluster = Awaited<ReturnType<typeof openApiCluster>>

/** A door that creates nothing itself, and two nodes that do. */
async function open(): Promise<{ cluster: Cluster; nodes: Nodes } & AsyncDisposable> {
  const cluster = await openApiCluster(['one', 'other', 'third'])
  cluster.statuses.set('one', 'draining')
  return {
    cluster,
    nodes: cluster.nodes as Nodes,
    [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
  }
}

const create = async (node: ApiNode, headers: Record<string, string> = {}) => {
  const answer = await node.call('POST', '/v2/sandboxes', {
    body: { templateID: 'base' },
    headers: { 'X-API-Key': node.key, ...headers },
  })
  const { sandboxID } = (await answer.json()) as { sandboxID: string }
  return { status: answer.status, sandboxID }
}

const nodeOf = async ({ fixture }: ApiNode, sandboxID: string) =>
  (await fixture.stores.owners.ownerOf({ kind: 'sandbox', id: sandboxID }))?.nodeID

const unended = async (nodes: readonly ApiNode[]) =>
  (await Promise.all(nodes.map(({ fixture }) => fixture.stores.sandboxes.listUnended()))).flat()

test('creates go to the next node while one cannot be reached, which is not tried again by each of them', async () => {
  await using opened = await open()
  const { cluster, nodes } = opened
  const [one] = nodes
  const address = cluster.addresses.get('other')!
  cluster.addresses.set('other', '127.0.0.1:9')
  for (let count = 0; count < 12; count++) {
    const { status, sandboxID } = await create(one)
    assert.equal(status, 201)
    assert.equal(await nodeOf(one, sandboxID), 'third')
    await one.call('DELETE', `/sandboxes/${sandboxID}`)
  }
  const trouble = one.reachability.troubleOf({ nodeID: 'other', address: '127.0.0.1:9' })
  assert.match(trouble!.why, /does not answer at 127\.0\.0\.1:9/)
  cluster.addresses.set('other', address)
  await until(async () => {
    const { sandboxID } = await create(one)
    const nodeID = await nodeOf(one, sandboxID)
    await one.call('DELETE', `/sandboxes/${sandboxID}`)
    return nodeID === 'other'
  })
})

test('creates go to the next node while another node answers at the address of one', async () => {
  await using opened = await open()
  const { cluster, nodes } = opened
  const [one] = nodes
  const address = cluster.addresses.get('third')!
  cluster.addresses.set('other', address)
  for (let count = 0; count < 8; count++) {
    const { status, sandboxID } = await create(one)
    assert.equal(status, 201)
    assert.equal(await nodeOf(one, sandboxID), 'third')
    await one.call('DELETE', `/sandboxes/${sandboxID}`)
  }
  const trouble = one.reachability.troubleOf({ nodeID: 'other', address })
  assert.equal(trouble!.why, `cannot be reached: node third answers at ${address}`)
})

test('a door whose nodes can all not be reached says so, and creates nothing', async () => {
  await using opened = await open()
  const { cluster, nodes } = opened
  for (const nodeID of ['other', 'third']) cluster.addresses.set(nodeID, '127.0.0.1:9')
  const answer = await nodes[0].call('POST', '/v2/sandboxes', { body: { templateID: 'base' } })
  assert.deepEqual([answer.status, answer.headers.get('retry-after')], [503, '1'])
  assert.match(await answer.text(), /None of the nodes .* can be reached now \((other, third|third, other)\)/)
  assert.deepEqual(await unended(nodes), [])
})

test('a create whose key another node has got says so while that node is away, and not when it was forgotten', async () => {
  await using opened = await open()
  const { cluster, nodes } = opened
  const [one] = nodes
  const key = { 'Idempotency-Key': 'mine' }
  const { sandboxID } = await create(one, key)
  const owner = (await nodeOf(one, sandboxID))!
  cluster.away.add(owner)
  const answer = await one.call('POST', '/v2/sandboxes', {
    body: { templateID: 'base' },
    headers: { 'X-API-Key': one.key, ...key },
  })
  assert.equal(answer.status, 503)
  assert.match(
    await answer.text(),
    /which got an earlier request with this Idempotency-Key, cannot be reached/,
  )
  cluster.addresses.delete(owner)
  assert.deepEqual(await create(one, key), { status: 201, sandboxID })
})

/** Calls `act` once, in the first create that either node begins, and returns that node. */
function onFirstStart(nodes: readonly ApiNode[], act: (node: ApiNode) => Promise<void>): Promise<ApiNode> {
  const { promise, resolve } = Promise.withResolvers<ApiNode>()
  let isFirst = true
  for (const node of nodes) {
    node.fixture.driver.beforeStarted = async () => {
      if (!isFirst) return
      isFirst = false
      resolve(node)
      await act(node)
    }
  }
  return promise
}

for (const headers of [{}, { 'Idempotency-Key': 'mine' }] as Record<string, string>[]) {
  const whose = 'Idempotency-Key' in headers ? "with the client's key" : 'without a key'
  test(`a create ${whose} whose node breaks off is made by the next node, and once`, async () => {
    await using opened = await open()
    const [one, ...others] = opened.nodes
    const blocked = gate()
    const begun = onFirstStart(others, (node) => {
      node.dropPeers()
      return blocked.opened
    })
    const { status, sandboxID } = await create(one, headers)
    const broken = await begun
    const next = others.find((node) => node !== broken)!
    assert.equal(status, 201)
    assert.equal(await nodeOf(one, sandboxID), next.nodeID)
    assert.deepEqual(
      (await unended(opened.nodes)).map((row) => row.sandboxID),
      [sandboxID],
    )
    blocked.open()
    await until(async () => (await broken.fixture.driver.list()).length === 0)
    assert.deepEqual(
      (await next.fixture.driver.list()).map((one) => one.sandboxID),
      [sandboxID],
    )
  })
}

test('a create whose answer is lost after the sandbox ran is answered with that sandbox', async () => {
  await using opened = await open()
  const [one, ...others] = opened.nodes
  let made: ApiNode | undefined
  for (const node of others) {
    node.fixture.faults.after = (method, [, to]) => {
      if (made || method !== 'transition' || to !== 'running') return
      made = node
      node.dropPeers()
    }
  }
  const { status, sandboxID } = await turning(one.fixture.clock, create(one))
  assert.equal(status, 201)
  assert.equal(await nodeOf(one, sandboxID), made!.nodeID)
  assert.equal((await unended(opened.nodes)).length, 1)
  const extended = await one.call('POST', `/sandboxes/${sandboxID}/timeout`, { body: { timeout: 60 } })
  assert.equal(extended.status, 204)
})

/** A door that creates nothing itself, and one node that does. */
async function openPair() {
  const cluster = await openApiCluster(['one', 'other'])
  cluster.statuses.set('one', 'draining')
  const [one, other] = cluster.nodes as [ApiNode, ApiNode]
  return { cluster, one, other, [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose]() }
}

const ask = (node: ApiNode, headers: Record<string, string> = {}) =>
  node.call('POST', '/v2/sandboxes', {
    body: { templateID: 'base' },
    headers: { 'X-API-Key': node.key, ...headers },
  })

test('a create whose only node breaks off after the sandbox ran is answered with that sandbox', async () => {
  await using opened = await openPair()
  const { one, other } = opened
  let isDropped = false
  other.fixture.faults.after = (method, [, to]) => {
    if (isDropped || method !== 'transition' || to !== 'running') return
    isDropped = true
    other.dropPeers()
  }
  const { status, sandboxID } = await create(one)
  assert.equal(status, 201)
  assert.deepEqual(
    (await unended([other])).map((row) => row.sandboxID),
    [sandboxID],
  )
})

for (const headers of [{}, { 'Idempotency-Key': 'mine' }] as Record<string, string>[]) {
  const whose = 'Idempotency-Key' in headers ? "with the client's key" : 'without a key'
  test(`a create ${whose} that was answered with "try again" leaves nothing, also if its node goes on late`, async () => {
    await using opened = await openPair()
    const { one, other } = opened
    const blocked = gate()
    const outcome = Promise.withResolvers<void>()
    other.fixture.faults.before = async (method) => {
      if (method !== 'insertWithinLimits') return
      other.fixture.faults.before = () => {}
      other.dropPeers()
      await blocked.opened
    }
    other.fixture.faults.after = (method) => {
      if (method === 'insertWithinLimits') outcome.resolve()
    }
    const answer = await ask(one, headers)
    assert.deepEqual([answer.status, answer.headers.get('retry-after')], [503, '1'])
    assert.match(await answer.text(), /None of the nodes .* Try again/)
    blocked.open()
    await outcome.promise
    await other.fixture.service.create(other.fixture.team, request())
    assert.equal((await unended([other])).length, 1, 'only the sandbox that was created afterwards')
    assert.equal((await other.fixture.driver.list()).length, 1)
    other.fixture.faults.after = () => {}
    assert.equal((await create(one, headers)).status, 201, 'the next attempt')
  })
}

test('a door that cannot find out whether a create took place does not say "try again"', async () => {
  await using opened = await openPair()
  const { one, other } = opened
  const { owners } = one.fixture.stores
  owners.giveUpCreate = async () => {
    throw new AppError('unavailable', 'The database cannot be reached.')
  }
  other.fixture.faults.before = (method) => {
    if (method === 'insertWithinLimits') other.dropPeers()
  }
  for (const [headers, shouldRetry] of [
    [{}, false],
    [{ 'Idempotency-Key': 'mine' }, true],
  ] as const) {
    const answer = await turning(one.fixture.clock, ask(one, headers))
    const retryHeader = answer.headers.get(header.shouldRetry)
    assert.deepEqual([answer.status, retryHeader], [503, String(shouldRetry)])
    assert.match(await answer.text(), /does not tell whether it created the sandbox/)
  }
})

/** What a create calls, in turn: the steps at which its answer may be lost. */
async function createOf(node: ApiNode, atStep: (step: number) => Promise<void>): Promise<number> {
  const { service, team, faults, driver } = node.fixture
  let steps = 0
  const hook = async () => atStep(steps++)
  faults.before = hook
  faults.after = hook
  driver.beforeStarted = hook
  await service.create(team, request(), claim).catch(() => {})
  faults.before = () => {}
  faults.after = () => {}
  return steps
}

const claim = { key: 'mine', requestHash: 'hash', attemptKey: 'attempt:1' }
const nextClaim = { ...claim, attemptKey: 'attempt:2' }

test('wherever a create is when its answer is lost, one sandbox runs in the end', async () => {
  for (let lostAt = 0, steps = 1; lostAt < steps; lostAt++) {
    await using cluster = await openApiCluster(['one', 'other'])
    const [one, other] = cluster.nodes as [ApiNode, ApiNode]
    const { team, stores, clock } = other.fixture
    const { service } = other.fixture
    let made: { sandboxID: string } | undefined
    const first = createOf(one, async (step) => {
      if (step !== lostAt) return
      const { key, attemptKey } = claim
      const lost = { teamID: team.teamID, key, attemptKey, nodeID: 'one', at: clock.now() }
      const earlier = await stores.owners.giveUpCreate(lost)
      made = await (earlier
        ? service.createdBy(earlier, nextClaim)
        : service.create(team, request(), nextClaim))
    })
    steps = await turning(clock, first)
    const { sandboxID } = made!
    const running = async () =>
      (await Promise.all(cluster.nodes.map(({ fixture }) => fixture.driver.list())))
        .flat()
        .map((found) => found.sandboxID)
    await until(async () => (await running()).length === 1)
    assert.deepEqual(await running(), [sandboxID], `lost at step ${lostAt}`)
    const rows = await unended(cluster.nodes)
    assert.deepEqual(
      rows.map((row) => [row.sandboxID, row.state]),
      [[sandboxID, 'running']],
      `lost at step ${lostAt}`,
    )
  }
})
