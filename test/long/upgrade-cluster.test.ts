/**
 * Two releases share one PostgreSQL and one object store: that of test/long/before-release.json, and one of this
 * tree with another version and one more migration. Clients use both, and nodes change from one to the other and
 * back under load. The nodes share one folder of runtimes and agents, so each has what the memory of the others needs.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { Sandbox } from 'e2b'
import { Client } from 'pg'
import { makeRelease } from '../../src/app/release/make-release.ts'
import { beforeRelease, unpackRelease } from '../support/before-release.ts'
import { type ClusterMember, startCluster, type TestCluster } from '../support/cluster.ts'
import { eventually } from '../support/eventually.ts'
import { LoadOnDoors } from '../support/load-on-doors.ts'
import { startObjectStore, type TestObjectStore } from '../support/object-store.ts'
import type { Warren } from '../support/warren.ts'

/** Only it keeps memory. */
const isolation = 'gvisor'
const newVersion = '9.9.9'
const migration = '9999-of-the-test'

const folder = mkdtempSync(join(tmpdir(), 'warren-releases-'))
let cluster: TestCluster
let objects: TestObjectStore
let [older, newer] = ['', '']
const door = (index: number): Warren => cluster.members[index]!.warren

before(async () => {
  older = await unpackRelease(await beforeRelease(), join(folder, 'before'))
  const { archive } = await makeRelease(join(folder, 'dist'), { onlyArchive: true })
  newer = await unpackRelease(archive, join(folder, 'now'))
  // Warren then makes its bundle of the changed sources.
  rmSync(join(newer, 'release.json'))
  change('package.json', /"version": "[^"]+"/, `"version": "${newVersion}"`)
  const step =
    `'${migration}': { phase: 'expand', up: (db: any) => ` +
    "db.schema.alterTable('sandboxes').addColumn('of_the_test', 'text').execute() },"
  change('src/store/migrate.ts', /(migrationsWith = [^\n]+\(\{\n)/, `$1${step}\n`)
  const settings = async (hostAddress: string) => {
    objects = await startObjectStore(hostAddress)
    return objects.env
  }
  cluster = await startCluster(isolation, { settings, program: older })
})
after(async () => {
  await cluster?.stop()
  await objects?.close()
  rmSync(folder, { recursive: true, force: true })
})

function change(path: string, from: RegExp, to: string): void {
  const file = join(folder, 'now', path)
  const text = readFileSync(file, 'utf8')
  assert.match(text, from)
  writeFileSync(file, text.replace(from, to))
}

async function asAdmin<T>({ api, adminToken }: Warren, path: string, body?: object): Promise<T | undefined> {
  const answer = await api(path, { key: null, headers: { 'X-Admin-Token': adminToken }, body })
  assert.ok(answer.ok, `${path}: ${answer.status}`)
  return answer.status === 204 ? undefined : ((await answer.json()) as T)
}

async function versions(): Promise<string[]> {
  const nodes = await asAdmin<{ id: string; version: string }[]>(door(0), '/nodes')
  return cluster.members.map(({ nodeID }) => nodes!.find(({ id }) => id === nodeID)?.version ?? 'none')
}

const setStatus = ({ nodeID }: ClusterMember, status: 'ready' | 'draining') =>
  asAdmin(door(0), `/nodes/${nodeID}`, { status })

/** A sandbox on that node with a value that only its memory has. */
async function onNode(index: number, value: string): Promise<Sandbox> {
  for (let attempt = 0; attempt < 30; attempt++) {
    const sandbox = await Sandbox.create({ ...door(index).client, timeoutMs: 3_600_000 })
    if ((await cluster.ownerOf(sandbox.sandboxId)) === cluster.members[index]) {
      await sandbox.commands.run(`echo ${value} > /dev/shm/value`)
      return sandbox
    }
    await sandbox.kill()
  }
  throw new Error(`No sandbox was placed on node ${index}.`)
}

const readValue = async (sandbox: Sandbox) => (await sandbox.commands.run('cat /dev/shm/value')).stdout.trim()

/** Whether a node started a sandbox before all its memory was there. The older release does not know that. */
const anyArrivedLater = () =>
  cluster.members.some(({ warren: { logFile } }) =>
    readFileSync(logFile, 'utf8').includes('All memory of a resumed sandbox has arrived.'),
  )

/** Drains the node, and returns the member that has the sandbox then. */
async function drainFrom(index: number, { sandboxId }: Sandbox): Promise<ClusterMember> {
  const member = cluster.members[index]!
  await setStatus(member, 'draining')
  await eventually(async () => {
    assert.notEqual(await cluster.ownerOf(sandboxId), member)
    const { state } = (await (await door(0).api(`/sandboxes/${sandboxId}`)).json()) as { state: string }
    assert.equal(state, 'running')
  })
  await setStatus(member, 'ready')
  return cluster.ownerOf(sandboxId)
}

suite('two releases on one PostgreSQL', () => {
  test('a newer node migrates the database, and older nodes go on and can be restarted', async () => {
    const [old] = await versions()
    await cluster.members[1]!.restart('stop', newer)
    assert.deepEqual(await versions(), [old, newVersion, old])
    const database = new Client({ connectionString: cluster.databaseURL })
    await database.connect()
    const found = await database
      .query('select name from kysely_migration where name = $1', [migration])
      .finally(() => database.end())
    assert.equal(found.rowCount, 1)
    await cluster.members[0]!.restart('stop')
    assert.deepEqual(await versions(), [old, newVersion, old])
  })

  test('create, pause, resume, fork and kill work at every door for sandboxes of both releases', async () => {
    for (const owner of [0, 1]) {
      const { sandboxId } = await onNode(owner, `memory-${owner}`)
      for (const index of [0, 1, 2]) {
        const sandbox = await Sandbox.connect(sandboxId, door(index).client)
        assert.equal(await readValue(sandbox), `memory-${owner}`)
        await sandbox.pause()
        const resumed = await Sandbox.connect(sandboxId, door((index + 1) % 3).client)
        assert.equal(await readValue(resumed), `memory-${owner}`)
        const [fork] = await resumed.fork({ count: 1, timeoutMs: 600_000 })
        if (!fork || fork instanceof Error) assert.fail(fork ?? 'no fork')
        assert.equal(await readValue(fork), `memory-${owner}`)
        assert.ok(await Sandbox.kill(fork.sandboxId, door((index + 2) % 3).client))
      }
      assert.ok(await Sandbox.kill(sandboxId, door(1 - owner).client))
    }
  })

  test('a drain moves sandboxes with their memory, from the newer release to the older one and back', async () => {
    const fromNewer = await onNode(1, 'newer')
    assert.notEqual(await drainFrom(1, fromNewer), cluster.members[1])
    assert.equal(await readValue(await Sandbox.connect(fromNewer.sandboxId, door(2).client)), 'newer')
    await cluster.members[2]!.restart('stop', newer)
    const fromOlder = await onNode(0, 'older')
    assert.notEqual(await drainFrom(0, fromOlder), cluster.members[0])
    assert.equal(await readValue(await Sandbox.connect(fromOlder.sandboxId, door(0).client)), 'older')
    for (const { sandboxId } of [fromNewer, fromOlder]) await Sandbox.kill(sandboxId, door(0).client)
    assert.equal(anyArrivedLater(), false, 'an older node may remove what a sandbox still reads')
  })

  test('all nodes change to the older release and to the newer one under load', async (t) => {
    const sandboxes = [await onNode(0, 'load'), await onNode(1, 'load'), await onNode(2, 'load')]
    const load = new LoadOnDoors(
      () => cluster.members.map(({ warren }) => warren),
      sandboxes.map(({ sandboxId }) => sandboxId),
    )
    for (const program of [older, newer]) {
      for (const [index, member] of cluster.members.entries()) {
        await load.without(index, async () => {
          await load.endProcess(() => member.warren.stop())
          await member.restart('stop', program)
        })
        await load.untilServed(20)
      }
    }
    const { served, broken, failed } = await load.stop()
    t.diagnostic(
      `${served} requests served, ${broken.length} broken off with a process: ${broken.join('; ')}`,
    )
    assert.deepEqual(failed, [])
    const others = broken.filter((text) => !text.startsWith('stream'))
    assert.deepEqual(others, [], 'a request that is short was broken off')
    assert.deepEqual(await versions(), [newVersion, newVersion, newVersion])
    for (const { sandboxId } of sandboxes) {
      assert.equal(await readValue(await Sandbox.connect(sandboxId, door(0).client)), 'load')
      await Sandbox.kill(sandboxId, door(0).client)
    }
    await drainFrom(0, await onNode(0, 'last'))
    await eventually(async () => assert.ok(anyArrivedLater()))
  })
})
