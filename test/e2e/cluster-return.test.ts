/** Two Warrens, one of which is forgotten and comes back: what was told as lost ends there, and its data is kept. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { Sandbox } from 'e2b'
import { type ClusterMember, startCluster, type TestCluster } from '../support/cluster.ts'
import { eventually } from '../support/eventually.ts'
import { names } from '../support/traces.ts'
import { anyIsolation, type Warren } from '../support/warren.ts'

let cluster: TestCluster
const member = (index: number): ClusterMember => cluster.members[index]!
const door = (index: number): Warren => member(index).warren

before(async () => {
  cluster = await startCluster(anyIsolation, { count: 2 })
})
after(() => cluster?.stop())

const asAdmin = (warren: Warren, method: string, path: string, body?: object) =>
  warren.api(path, { method, key: null, headers: { 'X-Admin-Token': warren.adminToken }, body })

async function onSecond(): Promise<Sandbox> {
  for (let attempt = 0; attempt < 30; attempt++) {
    const sandbox = await Sandbox.create(door(1).client)
    if ((await cluster.ownerOf(sandbox.sandboxId)) === member(1)) return sandbox
    await sandbox.kill()
  }
  throw new Error('No sandbox was placed on the second node.')
}

/** Once it has been silent for long enough. */
async function forgetSecond(): Promise<void> {
  await eventually(async () => {
    assert.equal((await asAdmin(door(0), 'DELETE', `/admin/nodes/${member(1).nodeID}`)).status, 200)
  })
}

function processesOf(sandboxID: string): string[] {
  const groupOf = (pid: string) => {
    try {
      return readFileSync(`/proc/${pid}/cgroup`, 'utf8')
    } catch {
      return ''
    }
  }
  return names('/proc').filter((name) => /^\d+$/.test(name) && groupOf(name).includes(sandboxID))
}

/** Its processes, its network and its files on the machine of the second node. */
const tracesOf = (sandboxID: string) => ({
  processes: processesOf(sandboxID).length,
  folder: existsSync(join(door(1).dataFolder, 'sandboxes', sandboxID)),
})

type Answer = { status: number; body: unknown }
async function ask(path: string, options: Parameters<Warren['api']>[1] = {}): Promise<Answer> {
  const answer = await door(0).api(path, options)
  return { status: answer.status, body: await answer.json().catch(() => undefined) }
}

/** At the first door, for whichever node has it. */
const contentOf = async (volumeID: string, path: string): Promise<string> => {
  const { token } = (await ask(`/volumes/${volumeID}`)).body as { token: string }
  const url = `${door(0).url}/volumecontent/${volumeID}/file?path=${path}`
  return (await fetch(url, { headers: { Authorization: `Bearer ${token}` } })).text()
}

async function warren(index: number, ...args: string[]): Promise<string> {
  const { code, out, error } = await member(index).command(...args)
  assert.equal(code, 0, out + error)
  return out
}

suite('a node that was forgotten comes back', () => {
  for (const [how, leave, comeBack] of [
    ['was killed', () => door(1).crash(), () => member(1).restart('crash')],
    ['was cut off', () => member(1).machine.cut(), () => member(1).machine.mend()],
  ] as const) {
    test(`a sandbox that was told as lost is stopped when its node, which ${how}, returns`, async (context) => {
      const { sandboxId } = await onSecond()
      await leave()
      try {
        await forgetSecond()
        assert.equal((await door(0).api(`/sandboxes/${sandboxId}`)).status, 404)
        assert.ok(processesOf(sandboxId).length > 0, 'it runs on while its node is away')
      } finally {
        await comeBack()
      }
      const since = Date.now()
      await eventually(() => assert.deepEqual(tracesOf(sandboxId), { processes: 0, folder: false }))
      context.diagnostic(`stopped ${Date.now() - since} ms after the return`)
      await eventually(async () => {
        const nodes = (await (await asAdmin(door(0), 'GET', '/nodes')).json()) as { status: string }[]
        assert.deepEqual(
          nodes.map(({ status }) => status),
          ['ready', 'ready'],
        )
      })
    })
  }

  test('a volume of the node is recovered with its files, under a new name if its own is taken', async () => {
    const made = await door(1).api('/volumes', { body: { name: 'data' } })
    const { volumeID } = (await made.json()) as { volumeID: string }
    const volumeMounts = { '/data': 'data' }
    const sandbox = await Sandbox.create('base', { ...door(0).client, volumeMounts })
    await sandbox.commands.run('echo written before > /data/note && sync /data/note')
    await member(1).losePower()
    await forgetSecond()
    assert.equal((await ask(`/volumes/${volumeID}`)).status, 404)
    assert.equal((await ask('/volumes', { body: { name: 'data' } })).status, 201, 'the name is free')
    assert.match(await warren(0, 'volume', 'lost'), new RegExp(`data +${volumeID} .* not there`))
    await member(1).restart('crash')
    await eventually(async () => assert.match(await warren(0, 'node', 'list'), /has the disks of 1 volumes/))
    assert.match(await warren(0, 'volume', 'lost'), new RegExp(`on node ${member(1).nodeID}`))
    await assert.rejects(warren(0, 'volume', 'recover', 'data'), /The team has another volume "data" now/)
    assert.match(
      await warren(0, 'volume', 'recover', volumeID, '--name', 'data-old'),
      /The volume data-old is back/,
    )
    assert.equal(await contentOf(volumeID, '/note'), 'written before\n')
    const again = await Sandbox.create('base', { ...door(0).client, volumeMounts: { '/old': 'data-old' } })
    assert.equal(await cluster.ownerOf(again.sandboxId), member(1))
    assert.equal(await again.files.read('/old/note'), 'written before\n')
    assert.equal(await warren(1, 'volume', 'lost'), 'No volumes are lost.\n')
    assert.doesNotMatch(await warren(0, 'node', 'list'), /PROBLEM/)
  })
})
