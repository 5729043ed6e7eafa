/** Three Warrens, one of which cannot be reached or restarts: the others serve what they can, and the rest waits. */
import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { Sandbox } from 'e2b'
import { type ClusterMember, startCluster, type TestCluster } from '../support/cluster.ts'
import { eventually } from '../support/eventually.ts'
import { anyIsolation, type Warren } from '../support/warren.ts'

let cluster: TestCluster
const member = (index: number): ClusterMember => cluster.members[index]!
const door = (index: number): Warren => member(index).warren

before(async () => {
  cluster = await startCluster(anyIsolation)
})
after(() => cluster?.stop())

const onNode = (index: number): Promise<Sandbox> => cluster.createOn(index)

/** Creates sandboxes at the door, one after the other, and returns their owners. */
async function createMany(at: Warren, count: number): Promise<Set<ClusterMember>> {
  const owners = new Set<ClusterMember>()
  for (let made = 0; made < count; made++) {
    const { sandboxId } = await Sandbox.create(at.client)
    owners.add(await cluster.ownerOf(sandboxId))
    await Sandbox.kill(sandboxId, at.client)
  }
  return owners
}

const asAdmin = (warren: Warren, method: string, path: string, body?: object) =>
  warren.api(path, { method, key: null, headers: { 'X-Admin-Token': warren.adminToken }, body })

type ListedProblem = { id: string; problem?: string }
async function problemAt(warren: Warren, { nodeID }: ClusterMember): Promise<string | undefined> {
  const nodes = (await (await asAdmin(warren, 'GET', '/nodes')).json()) as ListedProblem[]
  return nodes.find(({ id }) => id === nodeID)?.problem
}

suite('three Warrens of which one is out of reach', () => {
  test('no create fails after a node was killed', async () => {
    await createMany(door(0), 6)
    await door(2).crash()
    assert.ok(!(await createMany(door(0), 10)).has(member(2)))
    await member(2).restart('crash')
  })

  test('no create fails while two nodes do not reach each other, and the operator is told', async () => {
    await createMany(door(0), 6)
    await member(0).machine.cutFrom(member(1).machine)
    try {
      assert.ok(!(await createMany(door(0), 10)).has(member(1)))
      assert.match((await problemAt(door(0), member(1)))!, /does not answer at/)
      assert.equal(await problemAt(door(2), member(1)), undefined, 'that one reaches it')
    } finally {
      await member(0).machine.mendTo(member(1).machine)
    }
    await eventually(async () => assert.equal(await problemAt(door(0), member(1)), undefined))
    await eventually(async () => assert.ok((await createMany(door(0), 3)).has(member(1))))
  })

  test('a door that is cut from the node of a sandbox says that it lives, and another door reaches it', async (context) => {
    const { sandboxId } = await onNode(1)
    const [near, far] = await Promise.all([0, 2].map((at) => Sandbox.connect(sandboxId, door(at).client)))
    const streams = await near!.commands.run('sleep 600', { background: true, timeoutMs: 0 })
    const broken = streams.wait().then(
      () => assert.fail('the command ended'),
      (error: Error) => `${error.constructor.name}: ${error.message}`,
    )
    const since = Date.now()
    const report = (what: string) => context.diagnostic(`${what} after ${(Date.now() - since) / 1000} s`)
    await member(0).machine.cutFrom(member(1).machine)
    try {
      const asked = door(0).api(`/sandboxes/${sandboxId}/timeout`, { body: { timeout: 300 } })
      report(`the stream broke with "${await broken}"`)
      assert.equal((await far!.commands.run('echo on')).stdout, 'on\n')
      const refused = await asked
      report(`the request got ${refused.status}`)
      assert.equal(refused.status, 503)
      assert.ok(Number(refused.headers.get('retry-after')) > 0)
      assert.match(await refused.text(), /lives|Nothing is lost|again/)
      const second = Date.now()
      await assert.rejects(near!.commands.run('echo on'), (error: Error) => {
        assert.equal(error.constructor.name, 'RateLimitError', error.message)
        return true
      })
      context.diagnostic(`the next one was told after ${(Date.now() - second) / 1000} s`)
    } finally {
      await member(0).machine.mendTo(member(1).machine)
    }
    const mended = Date.now()
    await eventually(async () => assert.equal((await near!.commands.run('echo on')).stdout, 'on\n'))
    context.diagnostic(`reached again after ${(Date.now() - mended) / 1000} s`)
    await Sandbox.kill(sandboxId, door(0).client)
  })

  test('a key works at all doors, whichever made it, until it is revoked at any of them', async () => {
    const keys = [0, 1, 2].map((at) => door(at).apiKey)
    assert.equal(new Set(keys).size, 3, 'each machine made a key for the same team at its first start')
    const made = await asAdmin(door(1), 'POST', '/admin/teams/default/api-keys', { name: 'for all doors' })
    const { key, id } = (await made.json()) as { key: string; id: string }
    const statuses = (used: string) =>
      Promise.all([0, 1, 2].map(async (at) => (await door(at).api('/v2/sandboxes', { key: used })).status))
    for (const used of [...keys, key]) assert.deepEqual(await statuses(used), [200, 200, 200])
    assert.equal((await asAdmin(door(2), 'DELETE', `/admin/teams/default/api-keys/${id}`)).status, 204)
    assert.deepEqual(await statuses(key), [401, 401, 401])
  })

  test('a node with the address of another one does not start, and says whose it is', async () => {
    const { warren, machine } = member(1)
    await door(2).stop()
    await assert.rejects(
      member(2).startWith({ WARREN_PEER_ADDRESS: `${machine.address}:7443` }),
      new RegExp(
        `WARREN_PEER_ADDRESS=${machine.address}:7443\\. Node ${member(1).nodeID} has the same address`,
      ),
    )
    await member(2).restart('stop')
    assert.equal((await warren.api('/v2/sandboxes')).status, 200)
  })

  for (const signal of ['stop', 'crash'] as const) {
    test(`clients see no sandbox end while its node restarts after a ${signal}`, async (context) => {
      const sandbox = await onNode(1)
      const { sandboxId } = sandbox
      const same = await Sandbox.connect(sandboxId, door(0).client)
      const errors: string[] = []
      let [goesOn, count] = [true, 0]
      const load = (async () => {
        while (goesOn) {
          count++
          const work = [
            () => same.commands.run('echo on'),
            () => Sandbox.connect(sandboxId, door(0).client),
            () => same.files.write('/tmp/note', `${count}`),
            () => same.files.read('/tmp/note'),
          ][count % 4]!
          await work().catch((error) => void errors.push(`${error.constructor.name}: ${error.message}`))
        }
      })()
      await eventually(async () => assert.ok(count > 8))
      const since = Date.now()
      await member(1).restart(signal)
      context.diagnostic(`back after ${(Date.now() - since) / 1000} s`)
      const before = count
      await eventually(async () => assert.ok(count > before + 8))
      goesOn = false
      await load
      // What was under way when the process was killed may or may not have been done.
      const allowed = signal === 'crash' ? 1 : 0
      assert.ok(errors.length <= allowed, errors.join('\n'))
      for (const error of errors) assert.match(error, /It may have carried out the request/)
      await Sandbox.kill(sandboxId, door(0).client)
    })
  }
})
