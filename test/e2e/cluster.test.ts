/** Three Warrens over one PostgreSQL behave as one: any of them answers for all. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { connect } from 'node:net'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { promisify } from 'node:util'
import { Sandbox } from 'e2b'
import { type ClusterMember, startCluster, type TestCluster } from '../support/cluster.ts'
import { eventually } from '../support/eventually.ts'
import { pythonCommand } from '../support/python.ts'
import { type PythonRelease, pythonReleases } from '../support/releases.ts'
import { anyIsolation, type Warren } from '../support/warren.ts'

const run = promisify(execFile)
let python: ReturnType<typeof pythonCommand>
let cluster: TestCluster
const door = (index: number): Warren => cluster.members[index]!.warren

before(async () => {
  const [[version]] = pythonReleases(anyIsolation, 'same') as [PythonRelease]
  // Made before there are nodes: what these have to the database leads through this process.
  python = pythonCommand(version, join(import.meta.dirname, 'python/any_door.py'))
  cluster = await startCluster(anyIsolation)
})
after(() => cluster?.stop())

/** A sandbox on that node, and a door that is not its own. */
async function onNode(index: number): Promise<{ sandbox: Sandbox; member: ClusterMember; other: Warren }> {
  const member = cluster.members[index]!
  for (let attempt = 0; attempt < 30; attempt++) {
    const sandbox = await Sandbox.create(member.warren.client)
    if ((await cluster.ownerOf(sandbox.sandboxId)) === member) {
      return { sandbox, member, other: door((index + 1) % 3) }
    }
    await sandbox.kill()
  }
  throw new Error(`No sandbox was placed on node ${index}.`)
}

/** A sandbox that another node made for a request at that door, which nobody has reached there yet. */
async function madeForDoor(index: number): Promise<Sandbox> {
  for (let attempt = 0; attempt < 30; attempt++) {
    const sandbox = await Sandbox.create(door(index).client)
    if ((await cluster.ownerOf(sandbox.sandboxId)) !== cluster.members[index]) return sandbox
    await sandbox.kill()
  }
  throw new Error(`Every sandbox was placed on node ${index}.`)
}

type ShownNode = { id: string; status: string; sandboxCount: number }
const nodesAt = async (warren: Warren): Promise<ShownNode[]> =>
  (await (await asAdmin(warren, 'GET', '/nodes')).json()) as ShownNode[]
const asAdmin = (warren: Warren, method: string, path: string, body?: object) =>
  warren.api(path, { method, key: null, headers: { 'X-Admin-Token': warren.adminToken }, body })

/** The server stays in its load balancer, and says to the operator what is wrong, but not where the database is. */
async function seesOutage(warren: Warren): Promise<void> {
  await eventually(async () => {
    const ready = await warren.api('/health/ready', { key: null })
    assert.equal(ready.status, 200)
    const { conditions } = (await ready.json()) as { conditions?: { database: string } }
    assert.match(conditions?.database ?? '', /^cannot be reached since \S+Z$/)
  })
  assert.equal((await warren.api('/health/database', { key: null })).status, 503)
  const metrics = await (await asAdmin(warren, 'GET', '/metrics')).text()
  assert.match(metrics, /^warren_database_up 0$/m)
  assert.match(metrics, /^warren_edge_routes \d+$/m)
}

/** For who is on the machine itself, which may be cut off. */
async function statusAtOwnDoor({ machine, warren }: ClusterMember, path: string): Promise<number> {
  const curl = ['curl', '-s', '-m', '60', '-o', '/dev/null', '-w', '%{http_code}']
  const args = [`--net=${machine.namespace}`, ...curl, '-H', `X-API-Key: ${warren.apiKey}`, warren.url + path]
  return Number((await run('nsenter', args)).stdout)
}
/** Once the node that has it is back. */
async function eventuallyConnect(warren: Warren, sandboxID: string): Promise<Sandbox> {
  let found: Sandbox | undefined
  await eventually(async () => {
    found = await Sandbox.connect(sandboxID, warren.client)
  })
  return found!
}
const reach = (warren: Warren, sandboxID: string) =>
  Sandbox.connect(sandboxID, warren.client).then((sandbox) => sandbox.commands.run('echo reached'))

suite('three Warrens as three machines', () => {
  test('sandboxes spread, and each door lists and reaches all of them', async () => {
    const made = await Promise.all(Array.from({ length: 12 }, () => Sandbox.create(door(0).client)))
    const owners = new Set(await Promise.all(made.map(({ sandboxId }) => cluster.ownerOf(sandboxId))))
    assert.equal(owners.size, 3)
    const listed = (await (await door(1).api('/v2/sandboxes')).json()) as { sandboxID: string }[]
    assert.equal(listed.length, made.length)
    for (const { sandboxId } of made.slice(0, 3)) {
      for (const index of [0, 1, 2]) assert.equal((await reach(door(index), sandboxId)).stdout, 'reached\n')
    }
    await eventually(async () => {
      const counts = (await nodesAt(door(2))).map(({ sandboxCount }) => sandboxCount)
      assert.equal(
        counts.reduce((sum, count) => sum + count),
        made.length,
      )
    })
    await Promise.all(made.map(({ sandboxId }, index) => Sandbox.kill(sandboxId, door(index % 3).client)))
    assert.deepEqual(await (await door(2).api('/v2/sandboxes')).json(), [])
  })

  test('a team does not pass its limit by asking at all doors at once', async () => {
    const limits = (maxSandboxes: number) =>
      asAdmin(door(0), 'PATCH', '/admin/teams/default/limits', { maxSandboxes })
    await limits(4)
    const creates = Array.from({ length: 12 }, (_, index) =>
      door(index % 3).api('/v2/sandboxes', { body: { templateID: 'base', timeout: 60 } }),
    )
    const statuses = (await Promise.all(creates)).map(({ status }) => status).toSorted()
    assert.deepEqual(statuses, [...Array(4).fill(201), ...Array(8).fill(429)])
    await limits(100)
    const made = (await (await door(0).api('/v2/sandboxes')).json()) as { sandboxID: string }[]
    await Promise.all(made.map(({ sandboxID }) => Sandbox.kill(sandboxID, door(1).client)))
  })

  test('files, logs, metrics, upgrades and both ways to address a sandbox work at any door', async () => {
    const { sandbox, other } = await onNode(0)
    const { sandboxId } = sandbox
    const same = await Sandbox.connect(sandboxId, other.client)
    const big = 'x'.repeat(3_000_000)
    await same.files.write('/tmp/big', big)
    assert.equal(await same.files.read('/tmp/big'), big)
    await same.commands.run(`cat > /tmp/serve.py <<'END'\n${upgradeServer}\nEND`)
    await same.commands.run('python3 /tmp/serve.py', { background: true, timeoutMs: 0 })
    await eventually(async () => assert.equal(await echoThrough(other, `8000-${sandboxId}`), 'back: hello'))
    await eventually(async () => {
      const { logs } = (await (await other.api(`/v2/sandboxes/${sandboxId}/logs`)).json()) as { logs: [] }
      assert.ok(logs.length > 0)
    })
    assert.equal((await other.api(`/sandboxes/${sandboxId}/metrics`)).status, 200)
    assert.equal((await other.api(`/sandboxes/${sandboxId}`)).status, 200)
    assert.equal((await other.api(`/sandboxes/${sandboxId}`, { key: 'e2b_wrong' })).status, 401)
    assert.equal((await other.api(`/sandboxes/${sandboxId}/timeout`, { body: { timeout: 90 } })).status, 204)
    const [program, args] = python
    await run(program, [...args, sandboxId], { env: { ...process.env, ...other.environment } })
    await sandbox.kill()
  })

  test('volumes, builds, signed links and the end of all sandboxes work at any door', async () => {
    await Promise.all([volumeAtAnyDoor(), buildAtAnyDoor(), linkAtAnyDoor()])
    const killed = await asAdmin(door(2), 'POST', '/admin/teams/default/sandboxes/kill')
    assert.deepEqual(await killed.json(), { killedCount: 3, failedCount: 0 })
    for (const index of [0, 1, 2]) assert.deepEqual(await (await door(index).api('/v2/sandboxes')).json(), [])
  })

  test('a node without the database still serves its sandboxes and known ones of other nodes', async () => {
    const { sandbox, other } = await onNode(0)
    await reach(other, sandbox.sandboxId)
    const same = await Sandbox.connect(sandbox.sandboxId, other.client)
    const elsewhere = await madeForDoor(0)
    for (const { database } of cluster.members) database.cut()
    try {
      assert.equal((await elsewhere.commands.run('echo on')).stdout, 'on\n')
      assert.equal((await same.commands.run('echo on')).stdout, 'on\n')
      assert.equal((await sandbox.commands.run('echo on')).stdout, 'on\n')
      const rejected = await other.api('/v2/sandboxes')
      assert.equal(rejected.status, 503)
      assert.ok(Number(rejected.headers.get('retry-after')) > 0)
      await seesOutage(other)
    } finally {
      for (const { database } of cluster.members) database.mend()
    }
    await eventually(async () => assert.equal((await other.api('/v2/sandboxes')).status, 200))
    await eventually(async () => assert.equal((await other.api('/health/database')).status, 200))
    assert.deepEqual(await (await other.api('/health/ready')).json(), { ready: true })
    await Promise.all([sandbox.kill(), elsewhere.kill()])
  })

  test('a killed node counts as absent: its sandboxes are listed, and requests for them wait for its return', async () => {
    const { sandbox, member, other } = await onNode(2)
    await sandbox.files.write('/tmp/kept', 'kept')
    await member.warren.crash()
    const waiting = other.api(`/sandboxes/${sandbox.sandboxId}/timeout`, { body: { timeout: 300 } })
    assert.equal((await other.api(`/sandboxes/${sandbox.sandboxId}`)).status, 200)
    await member.restart('crash')
    assert.equal((await waiting).status, 204)
    const same = await Sandbox.connect(sandbox.sandboxId, other.client)
    assert.equal(await same.files.read('/tmp/kept'), 'kept')
    await sandbox.kill()
  })

  test('a machine that is cut off counts as absent; its sandboxes keep running, and are reachable again with the network', async () => {
    const { sandbox, member, other } = await onNode(2)
    const { sandboxId } = sandbox
    const beats = 'while sleep 0.2; do echo beat >> /tmp/beats; done'
    await sandbox.commands.run(`setsid sh -c '${beats}' > /dev/null 2>&1 &`)
    await reach(other, sandboxId)
    await member.machine.cut()
    try {
      const lost = await other.api(`/sandboxes/${sandboxId}/timeout`, { body: { timeout: 300 } })
      assert.equal(lost.status, 503)
      assert.ok(Number(lost.headers.get('retry-after')) > 0)
      await eventually(async () => {
        const node = (await nodesAt(other)).find(({ id }) => id === member.nodeID)
        assert.equal(node?.status, 'unhealthy')
      })
      assert.equal((await other.api(`/sandboxes/${sandboxId}`)).status, 200)
      assert.equal(await statusAtOwnDoor(member, '/v2/sandboxes'), 503)
      const elsewhere = await Sandbox.create(other.client)
      assert.notEqual(await cluster.ownerOf(elsewhere.sandboxId), member)
      await elsewhere.kill()
    } finally {
      await member.machine.mend()
    }
    const same = await eventuallyConnect(other, sandboxId)
    // It wrote all the time that it could not be reached.
    const count = Number((await same.commands.run('wc -l < /tmp/beats')).stdout)
    assert.ok(count > 40, `${count} beats`)
    await same.kill()
  })

  test('other nodes restart one after the other while a command streams', async () => {
    const { sandbox, other } = await onNode(0)
    const same = await Sandbox.connect(sandbox.sandboxId, door(0).client)
    const seen: string[] = []
    const command = await same.commands.run('for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 1; done', {
      background: true,
      timeoutMs: 0,
      onStdout: (text) => void seen.push(text),
    })
    for (const index of [1, 2]) await cluster.members[index]!.restart('stop')
    assert.equal((await command.wait()).stdout, '1\n2\n3\n4\n5\n6\n7\n8\n9\n')
    await cluster.members[0]!.restart('stop')
    const again = door(1)
    assert.notEqual(again, other)
    await eventually(async () => assert.equal((await reach(again, sandbox.sandboxId)).stdout, 'reached\n'))
    await Sandbox.kill(sandbox.sandboxId, again.client)
  })

  test('a draining node gets no new sandboxes, and a forgotten node takes its sandboxes with it', async () => {
    const { sandbox, member, other } = await onNode(2)
    assert.equal(
      (await asAdmin(other, 'POST', `/nodes/${member.nodeID}`, { status: 'draining' })).status,
      204,
    )
    await eventually(async () => {
      const { sandboxId } = await Sandbox.create(other.client)
      const isElsewhere = (await cluster.ownerOf(sandboxId)) !== member
      await Sandbox.kill(sandboxId, other.client)
      assert.ok(isElsewhere)
    })
    for (let count = 0; count < 4; count++) {
      const { sandboxId } = await Sandbox.create(other.client)
      assert.notEqual(await cluster.ownerOf(sandboxId), member)
      await Sandbox.kill(sandboxId, other.client)
    }
    assert.equal((await reach(other, sandbox.sandboxId)).stdout, 'reached\n')
    assert.equal((await asAdmin(other, 'DELETE', `/admin/nodes/${member.nodeID}`)).status, 409)
    await member.losePower()
    await eventually(async () => {
      const forgotten = await asAdmin(other, 'DELETE', `/admin/nodes/${member.nodeID}`)
      assert.equal(((await forgotten.json()) as { sandboxes: number }).sandboxes, 1)
    })
    assert.equal((await other.api(`/sandboxes/${sandbox.sandboxId}`)).status, 404)
    assert.equal((await nodesAt(other)).length, 2)
    await member.restart('stop')
    assert.equal((await nodesAt(other)).find(({ id }) => id === member.nodeID)?.status, 'ready')
    assert.equal((await member.warren.api(`/sandboxes/${sandbox.sandboxId}`)).status, 404)
  })
})

/** Made at one door, written through another, mounted in a sandbox that a third one was asked for. */
async function volumeAtAnyDoor(): Promise<void> {
  const made = await door(1).api('/volumes', { body: { name: 'shared' } })
  const { volumeID, token } = (await made.json()) as { volumeID: string; token: string }
  const url = `${door(2).url}/volumecontent/${volumeID}/file?path=/note`
  const written = await fetch(url, {
    method: 'PUT',
    body: 'through another door',
    headers: { Authorization: `Bearer ${token}` },
  })
  assert.equal(written.status, 201)
  const volumeMounts = { '/files': 'shared' }
  const sandbox = await Sandbox.create('base', { ...door(0).client, volumeMounts })
  assert.equal(await cluster.ownerOf(sandbox.sandboxId), cluster.members[1])
  assert.equal(await sandbox.files.read('/files/note'), 'through another door')
}

/** Requested at one door, watched at another, used at a third. */
async function buildAtAnyDoor(): Promise<void> {
  const requested = await door(0).api('/v3/templates', { body: { name: 'anywhere' } })
  const { templateID, buildID } = (await requested.json()) as { templateID: string; buildID: string }
  const steps = [{ type: 'RUN', args: ['echo built > /built', 'root'] }]
  const start = `/v2/templates/${templateID}/builds/${buildID}`
  assert.equal((await door(1).api(start, { body: { fromTemplate: 'base', steps } })).status, 202)
  await eventually(async () => {
    const status = await door(2).api(`/templates/${templateID}/builds/${buildID}/status`)
    assert.equal(((await status.json()) as { status: string }).status, 'ready')
  })
  const sandbox = await Sandbox.create('anywhere', door(2).client)
  assert.equal(await sandbox.files.read('/built'), 'built\n')
}

/** A link with a signature and nothing that names the sandbox. */
async function linkAtAnyDoor(): Promise<void> {
  const sandbox = await Sandbox.create(door(0).client)
  await sandbox.files.write('/tmp/linked', 'by its signature')
  const { search } = new URL(await sandbox.downloadUrl('/tmp/linked'))
  for (const index of [0, 1, 2]) {
    const answer = await fetch(`${door(index).url}/files${search}`)
    assert.deepEqual([answer.status, await answer.text()], [200, 'by its signature'])
  }
}

const upgradeServer = `
import socket
server = socket.create_server(('0.0.0.0', 8000))
while True:
    client, _ = server.accept()
    client.recv(65536)
    client.sendall(b'HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: echo\\r\\n\\r\\n')
    client.sendall(b'back: ' + client.recv(65536))
    client.close()
`

/** Leaves HTTP at the door, by the host name of the sandbox, and gives what comes back. */
function echoThrough({ url }: Warren, name: string): Promise<string> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect(Number(port), hostname)
    socket.write(`GET / HTTP/1.1\r\nHost: ${name}.localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n`)
    socket.on('data', (piece) => {
      text += piece
      if (text.endsWith('\r\n\r\n') && text.startsWith('HTTP/1.1 101')) socket.write('hello')
    })
    socket.on('error', reject).on('close', () => resolve(text.split('\r\n\r\n')[1] ?? text))
  })
}
