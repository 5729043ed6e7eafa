/**
 * Two Warrens over one PostgreSQL, and one real S3 server that is turned on after their first templates and sandboxes: each continues
 * with the sandboxes and templates of the other.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { Sandbox, Template } from 'e2b'
import type { MachineReport } from '../../src/contract/rest/machine.ts'
import { type ClusterMember, startCluster, type TestCluster } from '../support/cluster.ts'
import { eventually } from '../support/eventually.ts'
import { startObjectStore, type TestObjectStore } from '../support/object-store.ts'
import type { Warren } from '../support/warren.ts'

/** Only it keeps memory. */
const isolation = 'gvisor'

let objects: TestObjectStore
let cluster: TestCluster
const door = (index: number): Warren => cluster.members[index]!.warren

before(async () => {
  const settings = async (hostAddress: string) => {
    objects = await startObjectStore(hostAddress)
    return {}
  }
  cluster = await startCluster(isolation, { count: 2, settings })
})
after(async () => {
  await cluster?.stop()
  await objects?.close()
})

const stored = (path: string) => join(objects.folder, 'tests', path)
const isOn = (index: number, sandboxID: string) =>
  existsSync(join(door(index).dataFolder, 'sandboxes', sandboxID))

/** Which node gets it is drawn by lot. */
async function createOnFirst(template: string): Promise<Sandbox> {
  for (let attempt = 0; attempt < 20; attempt++) {
    const sandbox = await Sandbox.create(template, door(0).client)
    if (isOn(0, sandbox.sandboxId)) return sandbox
    await sandbox.kill()
  }
  throw new Error('the first node got no sandbox')
}

async function setStatus({ nodeID }: ClusterMember, status: 'ready' | 'draining'): Promise<void> {
  const { api, adminToken } = door(0)
  const headers = { 'X-Admin-Token': adminToken }
  const answer = await api(`/nodes/${nodeID}`, { method: 'POST', key: null, headers, body: { status } })
  assert.equal(answer.status, 204)
}

/**
 * Until the row says that the object store has it. Its objects appear earlier; if the node died in between, the
 * others would wait for the node, which alone knows that all bytes are there.
 */
async function untilMarked(select: string, ...values: string[]): Promise<void> {
  await eventually(async () => {
    const rows = await cluster.read(select, values)
    assert.ok(rows.length > 0 && rows.every((row) => row.stored_at !== null))
  })
}

const sayIn = async (sandbox: Sandbox, command: string) => (await sandbox.commands.run(command)).stdout

/** A program that counts in memory and prints each number. */
const counter = `
import json, os, secrets, time
secret, count = secrets.token_hex(8), 0
while True:
    count += 1
    with open('/dev/shm/count.new', 'w') as file:
        json.dump({'pid': os.getpid(), 'secret': secret, 'count': count}, file)
    os.rename('/dev/shm/count.new', '/dev/shm/count')
    time.sleep(0.05)
`
type Counted = { pid: number; secret: string; count: number }
const readCount = async (sandbox: Sandbox): Promise<Counted> =>
  JSON.parse(await sayIn(sandbox, 'cat /dev/shm/count'))

/** Runs commands at that door, one after the other, until `stop` is called and one is answered. */
function askOnAndOn({ client }: Warren, sandboxID: string): { stop(): Promise<void> } {
  let [goesOn, left] = [true, 100]
  const ask = async () => {
    const sandbox = await Sandbox.connect(sandboxID, client)
    assert.equal(await sayIn(sandbox, 'echo on'), 'on\n')
    return 'answered'
  }
  const done = (async () => {
    for (let outcome = ''; goesOn || outcome !== 'answered'; ) {
      outcome = await ask().catch(String)
      if (!goesOn) assert.ok(left-- > 0, outcome)
    }
  })()
  // Whoever stops it sees the failure.
  done.catch(() => {})
  return {
    stop() {
      goesOn = false
      return done
    },
  }
}

suite('two Warrens with an object store', () => {
  let sandboxID: string

  test('an object store that is turned on later gets earlier builds and snapshots, with the base below them', async () => {
    const template = Template().fromBaseImage().runCmd('echo by the first node > made')
    await Template.build(template, 'shared', door(0).client)
    const sandbox = await createOnFirst('shared')
    sandboxID = sandbox.sandboxId
    await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
    await sandbox.commands.run('echo in memory > /dev/shm/mark; echo on disk > mark')
    await sandbox.pause()
    for (const member of cluster.members) {
      await member.warren.stop()
      await member.startWith(objects.env)
    }
    await eventually(async () => assert.equal(readdirSync(stored('layers')).length, 1))
    await untilMarked(`select b.stored_at from template_builds b join templates t on t.id = b.template_id
      where t.team_id is not null and b.status = 'ready'`)
    await eventually(async () => assert.equal(readdirSync(stored(`sandboxes/${sandboxID}`)).length, 1))
    await untilMarked('select stored_at from sandboxes where id = $1', sandboxID)
    const { api, adminToken } = door(0)
    const report = await api('/admin/machine', { key: null, headers: { 'X-Admin-Token': adminToken } })
    const { objectStore } = (await report.json()) as MachineReport
    assert.deepEqual(objectStore, { waitingTemplates: 0, waitingSandboxes: 0, onlyHere: 0 })
  })

  test('a node that dies loses neither of them: the other node resumes its sandbox with its memory', async () => {
    await door(0).crash()
    // As on a machine that never had the base: all layers of the sandbox come from the object store.
    rmSync(join(door(1).dataFolder, 'images/layers'), { recursive: true })
    let resumed: Sandbox | undefined
    await eventually(async () => {
      resumed = await Sandbox.connect(sandboxID, door(1).client)
    })
    assert.equal(await sayIn(resumed!, 'cat /dev/shm/mark mark'), 'in memory\non disk\n')
    assert.match(await sayIn(resumed!, 'ps ax'), /sleep 1000/)
    assert.ok(isOn(1, sandboxID))
  })

  test('a template that one node built starts on another without another build', async () => {
    const sandbox = await Sandbox.create('shared', door(1).client)
    assert.equal(await sayIn(sandbox, 'cat made'), 'by the first node\n')
    assert.ok(isOn(1, sandbox.sandboxId))
    await sandbox.kill()
  })

  test('the node that comes back removes its copy, and routes to the sandbox where it is', async () => {
    await cluster.members[0]!.restart('stop')
    const copies = () =>
      readdirSync(join(door(0).dataFolder, 'saved')).filter((name) => name.startsWith(sandboxID))
    await eventually(async () => assert.deepEqual(copies(), []))
    const same = await Sandbox.connect(sandboxID, door(0).client)
    assert.equal(await sayIn(same, 'cat /dev/shm/mark'), 'in memory\n')
  })

  test('sandboxes on a node that is drained under load continue on the other with their memory', async () => {
    const [, drained] = cluster.members
    const there = await Sandbox.connect(sandboxID, door(1).client)
    await there.commands.run(`cat > count.py <<'END'\n${counter}\nEND`)
    await there.commands.run('python3 count.py', { background: true, timeoutMs: 0 })
    let before: Counted | undefined
    await eventually(async () => {
      before = await readCount(there)
    })
    const loads = [0, 1].map((index) => askOnAndOn(door(index), sandboxID))
    try {
      await setStatus(drained!, 'draining')
      await eventually(async () => assert.ok(isOn(0, sandboxID) && !isOn(1, sandboxID)))
    } finally {
      // Requests under way may be reset or told to come again; those after them find the sandbox.
      await Promise.all(loads.map((load) => load.stop()))
    }
    const migrated = await Sandbox.connect(sandboxID, door(1).client)
    assert.equal(await sayIn(migrated, 'cat /dev/shm/mark mark'), 'in memory\non disk\n')
    // The process itself went on, with what only its memory has.
    const now = await readCount(migrated)
    assert.deepEqual([now.pid, now.secret], [before!.pid, before!.secret])
    assert.ok(now.count >= before!.count)
    await eventually(async () => assert.ok((await readCount(migrated)).count > now.count))
    await setStatus(drained!, 'ready')
  })

  test('while the object store does not answer, sandboxes are created, paused and resumed', async () => {
    await objects.stop()
    const sandbox = await Sandbox.create(door(1).client)
    await sandbox.commands.run('echo kept > /dev/shm/mark')
    await sandbox.pause()
    const again = await Sandbox.connect(sandbox.sandboxId, door(1).client)
    assert.equal(await sayIn(again, 'cat /dev/shm/mark'), 'kept\n')
    await objects.start()
    await again.pause()
    const uploads = () => readdirSync(stored(`sandboxes/${sandbox.sandboxId}`))
    await eventually(async () => assert.equal(uploads().length, 1))
    await Sandbox.kill(sandbox.sandboxId, door(1).client)
    await Sandbox.kill(sandboxID, door(0).client)
  })
})
