/** Three Warrens of which one stands still, or their PostgreSQL does, while the kernels still accept connections: every request gets an answer. */
import assert from 'node:assert/strict'
import { after, afterEach, before, suite, test } from 'node:test'
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
afterEach(async () => {
  for (const sandboxID of await unended()) await Sandbox.kill(sandboxID, door(0).client)
})

const onNode = (index: number): Promise<Sandbox> => cluster.createOn(index)

/** Far more than an answer may take. */
const answerWithin = () => AbortSignal.timeout(120_000)

const ask = (at: Warren, path: string, body?: object) =>
  at.api(path, { signal: answerWithin(), ...(body && { body }) })

async function createAt(at: Warren): Promise<string> {
  const answer = await ask(at, '/v2/sandboxes', { templateID: 'base' })
  const text = await answer.text()
  assert.equal(answer.status, 201, text)
  return (JSON.parse(text) as { sandboxID: string }).sandboxID
}

const unended = async (): Promise<string[]> =>
  (await cluster.read("select id from sandboxes where state <> 'ended'")).map(({ id }) => id as string)

suite('a Warren that stands still', () => {
  test('creates go to the other nodes, and requests for its sandboxes get an answer', async (context) => {
    const { sandboxId } = await onNode(1)
    const same = await Sandbox.connect(sandboxId, door(0).client)
    const stream = await same.commands.run('sleep 600', { background: true, timeoutMs: 0 })
    const readLog = () => ask(door(0), `/sandboxes/${sandboxId}/logs`)
    // So that the door has open connections to the node, which the next requests use.
    await Promise.all(Array.from({ length: 10 }, readLog))
    const since = Date.now()
    const timed = <T>(what: string, answer: Promise<T>): Promise<T> =>
      answer.finally(() => context.diagnostic(`${what} answered after ${(Date.now() - since) / 1000} s`))
    process.kill(door(1).pid, 'SIGSTOP')
    try {
      const creates = Array.from({ length: 6 }, (_, index) => timed(`create ${index}`, createAt(door(0))))
      const command = timed('a command', same.commands.run('echo on', { requestTimeoutMs: 120_000 }))
      const read = timed('a read', readLog())
      const list = await timed('a list', ask(door(0), '/v2/sandboxes'))
      assert.equal(list.status, 200)
      const broken = assert.rejects(timed('an open stream', stream.wait()))
      await assert.rejects(command, /It may have carried out the request|Nothing is lost/)
      await broken
      const refused = await read
      assert.deepEqual([refused.status, Number(refused.headers.get('retry-after')) > 0], [503, true])
      assert.match(await refused.text(), /Nothing is lost/)
      for (const made of await Promise.all(creates))
        assert.notEqual(await cluster.ownerOf(made), member(1), 'the node that stands still')
      assert.equal((await unended()).length, 7)
    } finally {
      process.kill(door(1).pid, 'SIGCONT')
    }
    await eventually(async () => assert.equal((await same.commands.run('echo on')).stdout, 'on\n'))
    assert.equal((await unended()).length, 7, 'no create that was given up went on')
  })
})

suite('a PostgreSQL that stands still', () => {
  test('requests that need a row get 503, and sandboxes can be used', async (context) => {
    const own = await onNode(0)
    const { sandboxId } = await onNode(1)
    const far = await Sandbox.connect(sandboxId, door(0).client)
    await far.commands.run('echo on')
    const since = Date.now()
    const get503 = async (what: string, asked: Promise<Response>) => {
      const answer = await asked
      context.diagnostic(`${what} answered after ${(Date.now() - since) / 1000} s`)
      assert.deepEqual([what, answer.status], [what, 503])
      assert.ok(Number(answer.headers.get('retry-after')) > 0, what)
      assert.match(await answer.text(), /The database cannot be reached/)
    }
    cluster.postgres.freeze('all')
    try {
      const asked = [
        get503('a list', ask(door(0), '/v2/sandboxes')),
        get503('a create', ask(door(0), '/v2/sandboxes', { templateID: 'base' })),
        get503(
          'a stranger',
          door(0).api('/v2/sandboxes', { key: `e2b_${'0'.repeat(40)}`, signal: answerWithin() }),
        ),
        get503('an unknown sandbox', ask(door(0), '/sandboxes/iaaaaaaaaaaaaaaaaaaaa')),
      ]
      assert.equal((await own.commands.run('echo on')).stdout, 'on\n')
      assert.equal((await far.commands.run('echo on')).stdout, 'on\n', 'of another node')
      await Promise.all(asked)
      await get503('the next list', ask(door(0), '/v2/sandboxes'))
    } finally {
      cluster.postgres.thaw()
    }
    await eventually(async () => assert.equal((await ask(door(0), '/v2/sandboxes')).status, 200))
    assert.deepEqual((await unended()).sort(), [own.sandboxId, sandboxId].sort(), 'nothing ended')
    await eventually(async () => void (await createAt(door(0))))
  })
})
