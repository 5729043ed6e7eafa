import assert from 'node:assert/strict'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import test, { after, beforeEach } from 'node:test'
import { AdminClient } from './admin-client.ts'
import { UsageError } from './arguments.ts'
import { banner, clientEnvironment, envCommand, serviceLine, shellExports } from './env.ts'
import { keyVerbs } from './key.ts'
import { nodeVerbs } from './node.ts'
import { asJson, listing, plainLines, table, withoutDirections } from './output.ts'
import { PeopleClient } from './people-client.ts'
import { pruneCommand } from './prune.ts'
import { recoverCommand } from './recover.ts'
import { teamVerbs } from './team.ts'
import { runVerb } from './verbs.ts'
import { volumeVerbs } from './volume.ts'

const limits = { maxSandboxes: 100, maxCPU: 400, maxMemoryMB: 409600, maxLifetimeHours: 24, maxGPUs: 8 }
const team = {
  teamID: 'id-1',
  slug: 'research',
  name: 'Research',
  createdAt: '2026-01-02T03:04:05.000Z',
  limits,
  olderClients: false,
}
const mask = { prefix: 'e2b_', valueLength: 40, maskedValuePrefix: 'ab', maskedValueSuffix: 'cdef' }
const key = { id: 'key-1', name: 'laptop', mask, createdAt: '2026-01-02T03:04:05.000Z', role: 'owner' }

const report = {
  dryRun: true,
  bytes: 3_500_000,
  steps: { count: 3, bytes: 0 },
  savedStates: { count: 2, bytes: 500_000 },
  layers: { count: 1, bytes: 3_000_000 },
  files: { count: 0, bytes: 0 },
}

const quarantined = {
  snapshotName: 'ione-run',
  sandboxID: 'ione',
  reason: 'No row names it.',
  since: '2026-01-02T03:04:05.000Z',
  deletedAt: '2026-01-09T03:04:05.000Z',
}

const lostVolume = (name: string, foundAt: string | null) => ({
  volumeID: `id-of-${name}`,
  name,
  teamID: 'id-1',
  nodeID: '0a24',
  sizeMB: 64,
  lostAt: '2026-01-02T03:04:05.000Z',
  foundAt,
})

const volume = { volumeID: 'id-v', name: 'data', sizeMB: 64, createdAt: '2026-01-02T03:04:05.000Z' }

const node = (id: string, address: string) => ({
  id,
  address,
  status: 'ready',
  sandboxCount: 4,
  version: '1.0.0',
  metrics: { cpuPercent: 7, cpuCount: 2, memoryUsedBytes: 2 ** 30, memoryTotalBytes: 2 ** 31 },
})

/** Answers like the server and remembers what it was asked. */
let asked: { method: string; path: string; token: unknown; body: unknown }[] = []
const answers: Record<string, [number, unknown?]> = {
  'GET /admin/teams': [200, [team]],
  'POST /admin/teams': [201, team],
  'DELETE /admin/teams/id-1?force=false': [409, { code: 409, message: 'It has 2 sandboxes.' }],
  'DELETE /admin/teams/id-1?force=true': [204],
  'PATCH /admin/teams/id-1': [200, { ...team, olderClients: true }],
  'PATCH /admin/teams/id-1/limits': [200, { ...team, limits: { ...limits, maxSandboxes: 5 } }],
  'GET /api-keys': [200, [key]],
  'POST /api-keys': [201, { ...key, key: `e2b_${'a'.repeat(40)}` }],
  'DELETE /api-keys/key-1': [204],
  'POST /admin/prune': [200, report],
  'GET /admin/quarantine': [200, [quarantined]],
  'POST /admin/quarantine/ione-run/recover': [200, { sandboxID: 'ione', teamID: 'id-1' }],
  'DELETE /admin/quarantine/ione-run': [204],
  'GET /admin/lost-volumes': [
    200,
    [lostVolume('data', null), lostVolume('models', '2026-01-03T03:04:05.000Z')],
  ],
  'POST /admin/lost-volumes/id-of-models/recover': [
    200,
    { volumeID: 'id-of-models', name: 'models', teamID: 'id-1' },
  ],
  'GET /nodes': [
    200,
    [node('0a24', '10.0.0.1:7443'), { ...node('8be1', '[fd00::2]:7443'), problem: 'It is lost.' }],
  ],
  'POST /nodes/0a24': [204],
  'POST /nodes/8be1': [204],
  'GET /volumes': [200, [volume]],
  'POST /volumes': [201, { ...volume, token: 't' }],
  'DELETE /volumes/id-v': [204],
  'DELETE /api-keys/key-2': [404, { code: 404, message: 'There is no key key-2.' }],
}
const server = http.createServer(async (request, response) => {
  let text = ''
  for await (const chunk of request) text += chunk
  const { method = '', url = '', headers } = request
  asked.push({
    method,
    path: url,
    token: headers['x-admin-token'],
    body: text ? JSON.parse(text) : undefined,
  })
  const [status, body] = answers[`${method} ${url}`] ?? [500, { message: `not expected: ${method} ${url}` }]
  response.writeHead(status, { 'content-type': 'application/json' }).end(body && JSON.stringify(body))
})
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
after(() => server.close())
beforeEach(() => {
  asked = []
})

const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
const connect = async () => new AdminClient({ url, adminToken: 'secret' })
const volumeParts = {
  connect: async (): Promise<never> => assert.fail('a team was asked'),
  connectAdmin: connect,
}
const neverConnect = async (): Promise<AdminClient> => assert.fail('the command was sent')

const connectPeople = async () => new PeopleClient({ admin: { url, adminToken: 'secret' } })
const neverPeople = async (): Promise<PeopleClient> => assert.fail('the command was sent')

const neverVolumes = { ...volumeParts, connectAdmin: neverConnect }

test('team list shows a table to people and JSON to programs', async () => {
  assert.match(
    await runVerb(teamVerbs, ['list'], connect),
    /^TEAM .*\nresearch +Research +100 +400 +409600 +24 +8 +no +2026-01-02/,
  )
  assert.deepEqual(JSON.parse(await runVerb(teamVerbs, ['list', '--json'], connect)), [team])
  assert.equal(asked[0]!.token, 'secret')
})

test('node list shows the machine of a node and its problem, and drain accepts its address', async () => {
  const listed = await runVerb(nodeVerbs, ['list'], connect)
  assert.match(listed, /^0a24 .* 1\.0\.0 +10\.0\.0\.1:7443$/m)
  assert.match(listed, /\nPROBLEM 8be1: It is lost\.$/)
  for (const [word, id] of Object.entries({
    '0a': '0a24',
    '10.0.0.1': '0a24',
    '10.0.0.1:7443': '0a24',
    'fd00::2': '8be1',
    '[fd00::2]:7443': '8be1',
  })) {
    assert.equal(await runVerb(nodeVerbs, ['drain', word], connect), `Node ${id} gets no new sandboxes.`)
  }
  await assert.rejects(runVerb(nodeVerbs, ['drain', '10.0.0'], connect), /no node has this name/)
})

test('team create sends the name', async () => {
  await runVerb(teamVerbs, ['create', 'Research'], connect)
  assert.deepEqual(asked[0], {
    method: 'POST',
    path: '/admin/teams',
    token: 'secret',
    body: { name: 'Research' },
  })
})

test('team delete requires force if the server does, and reports the deletion', async () => {
  await assert.rejects(runVerb(teamVerbs, ['delete', 'research'], connect), /It has 2 sandboxes/)
  assert.equal(
    await runVerb(teamVerbs, ['delete', 'research', '--force'], connect),
    'The team research is deleted.',
  )
  await assert.rejects(runVerb(teamVerbs, ['delete'], neverConnect), /TEAM is missing/)
})

test('team limits changes only the named limits and finds the team by any of its names', async () => {
  for (const word of ['research', 'id-1', 'Research']) {
    asked = []
    const shown = await runVerb(teamVerbs, ['limits', word, '--sandboxes', '5', '--json'], connect)
    assert.equal(JSON.parse(shown).limits.maxSandboxes, 5)
    assert.deepEqual(asked.at(-1)!.body, { maxSandboxes: 5 })
  }
})

test('team older-clients takes yes or no, and nothing else', async () => {
  const shown = await runVerb(teamVerbs, ['older-clients', 'research', 'yes'], connect)
  assert.match(shown, /OLDER CLIENTS[^\n]*\n.* yes /)
  assert.deepEqual(asked.at(-1)?.body, { olderClients: true })
  await runVerb(teamVerbs, ['older-clients', 'research', 'no', '--json'], connect)
  assert.deepEqual(asked.at(-1)?.body, { olderClients: false })
  const wrong = runVerb(teamVerbs, ['older-clients', 'research', 'maybe'], connect)
  await assert.rejects(wrong, /'maybe' is neither yes nor no/)
})

test('team limits without a number changes nothing and shows the current limits', async () => {
  assert.match(await runVerb(teamVerbs, ['limits', 'research'], connect), /100/)
  assert.deepEqual(
    asked.map((one) => one.method),
    ['GET'],
  )
})

test('an unknown team is rejected with a list of the teams', async () => {
  await assert.rejects(runVerb(teamVerbs, ['limits', 'nobody'], connect), /no team 'nobody'.*research/)
})

test('key create prints the key on a line of its own', async () => {
  const shown = await runVerb(keyVerbs, ['create', 'research', '--name', 'laptop'], connectPeople)
  assert.equal(shown.split('\n')[0], `e2b_${'a'.repeat(40)}`)
  assert.deepEqual(asked.at(-1)!.body, { name: 'laptop' })
})

test('key list never shows a key, only enough to distinguish keys', async () => {
  assert.match(
    await runVerb(keyVerbs, ['list', 'research'], connectPeople),
    /key-1 +laptop +e2b_ab…cdef +owner +a service +never +never/,
  )
})

test("key revoke reports success, and an unknown key is rejected with the server's message", async () => {
  assert.match(await runVerb(keyVerbs, ['revoke', 'research', 'key-1'], connectPeople), /key-1 is revoked/)
  await assert.rejects(
    runVerb(keyVerbs, ['revoke', 'research', 'key-2'], connectPeople),
    /There is no key key-2/,
  )
})

test('a malformed command is rejected before anything is sent', async () => {
  for (const args of [
    [],
    ['nix'],
    ['create'],
    ['create', 'a', 'b'],
    ['list', '--wrong'],
    ['limits', 'x', '--cpu', '-1'],
  ]) {
    await assert.rejects(runVerb(teamVerbs, args, neverConnect), UsageError, args.join(' '))
  }
  for (const args of [[], ['create'], ['revoke', 'research'], ['list', 'a', 'b']]) {
    await assert.rejects(runVerb(keyVerbs, args, neverPeople), UsageError, args.join(' '))
  }
})

test('a superfluous argument is named, with a hint to the help', async () => {
  const extra = runVerb(teamVerbs, ['list', 'x'], neverConnect)
  await assert.rejects(extra, { message: "Unknown argument 'x'. Run `warren team list --help`." })
  const verb = runVerb(keyVerbs, ['nix'], neverPeople)
  await assert.rejects(verb, { message: "Unknown argument 'nix'. Run `warren key --help`." })
  const none = runVerb(keyVerbs, [], neverPeople)
  const message = 'An argument is missing: create, list, revoke. Run `warren key --help`.'
  await assert.rejects(none, { message })
  const option = pruneCommand(['--force'], neverConnect)
  await assert.rejects(option, { message: "Unknown option '--force'. Run `warren prune --help`." })
})

test('every command answers --help with its usage, whatever else is given', async () => {
  const find = async (): Promise<never> => assert.fail('the server was looked for')
  for (const [command, run] of [
    ['team', (args: string[]) => runVerb(teamVerbs, args, neverConnect)],
    ['key', (args: string[]) => runVerb(keyVerbs, args, neverPeople)],
    ['prune', (args: string[]) => pruneCommand(args, neverConnect)],
    ['recover', (args: string[]) => recoverCommand(args, neverConnect)],
    ['volume', (args: string[]) => runVerb(volumeVerbs, args, neverVolumes)],
    ['env', (args: string[]) => envCommand(args, find)],
  ] as const) {
    for (const args of [['--help'], ['-h'], ['list', 'x', '--help']]) {
      assert.match(await run(args), new RegExp(`^Usage:\\n  warren ${command} `))
    }
  }
})

test('a server that does not answer is reported with the command that starts it', async () => {
  const closed = async () => new AdminClient({ url: 'http://127.0.0.1:1', adminToken: 'x' })
  await assert.rejects(runVerb(teamVerbs, ['list'], closed), /does not answer at .*npm start/)
})

test('without a domain the client gets both URLs, with TLS the domain alone', () => {
  const apiKey = 'e2b_1'
  const local = { E2B_API_KEY: apiKey, E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_VOLUME_API_URL: url }
  assert.deepEqual(clientEnvironment({ url, domain: null, apiKey }), local)
  const byName = clientEnvironment({
    url: 'https://127.0.0.1',
    domain: 'box.example:8443',
    hasNoWildcard: true,
    apiKey,
  })
  const name = 'https://api.box.example:8443'
  assert.deepEqual(byName, {
    E2B_API_KEY: apiKey,
    E2B_API_URL: name,
    E2B_SANDBOX_URL: 'https://sandbox.box.example:8443',
    E2B_VOLUME_API_URL: name,
  })
  assert.deepEqual(clientEnvironment({ url, domain: 'box.example', apiKey }), {
    ...local,
    E2B_DOMAIN: 'box.example',
  })
  assert.deepEqual(clientEnvironment({ url: 'https://127.0.0.1:8443', domain: 'box.example:8443', apiKey }), {
    E2B_API_KEY: apiKey,
    E2B_DOMAIN: 'box.example:8443',
  })
})

test('exports survive a shell, whatever they contain', () => {
  assert.equal(shellExports({ A: 'http://127.0.0.1:3000' }), 'export A=http://127.0.0.1:3000')
  assert.equal(shellExports({ A: "a b'c$(d)" }), `export A='a b'\\''c$(d)'`)
})

test('env prints exports, and the same values as JSON', async () => {
  const find = async () => ({ url, domain: null, apiKey: 'e2b_1' })
  assert.match(await envCommand([], find), /^export E2B_API_KEY=e2b_1$/m)
  assert.equal(JSON.parse(await envCommand(['--json'], find)).E2B_SANDBOX_URL, url)
})

test('the banner fits on one screen with the address, the key, the dashboard and lines to paste', () => {
  const text = banner({ url, domain: null, apiKey: 'e2b_1' }, 'gVisor', '/opt/warren/bin/warren')
  for (const part of [`at ${url} (gVisor)`, 'e2b_1', `${url}/dashboard`, `${url}/docs`])
    assert.ok(text.includes(part), part)
  for (const command of ['run -- python3', 'run -it', 'env)"'])
    assert.ok(text.includes(`/opt/warren/bin/warren ${command}`), command)
  assert.ok(text.split('\n').length < 24)
})

test('a start that no terminal shows does not write the key', () => {
  const text = serviceLine({ url, domain: null, apiKey: 'e2b_1' }, 'gVisor')
  assert.match(text, /serves at .*bin\/warren env/)
  assert.ok(!text.includes('e2b_1'))
})

test('a name with control characters cannot break the table', () => {
  assert.equal(table(['A', 'B'], [['x\n\x1b[31m', 'y']]), 'A        B\nx??[31m  y')
})

const turned = ['\u202e', '\u2066', '\u200f', '\u061c', '\u2028']

test('characters that change the direction of a text are shown as question marks, and escaped in JSON', () => {
  for (const mark of turned) {
    const text = `gnp.${mark}exe`
    const shown = [table(['A'], [[text]]), listing({ a: text }), plainLines(text), withoutDirections(text)]
    for (const each of shown) assert.ok(each.includes('gnp.?exe'), JSON.stringify(each))
    const json = asJson({ [text]: [text] })
    assert.ok(!json.includes(mark))
    assert.deepEqual(JSON.parse(json), { [text]: [text] })
  }
  assert.equal(withoutDirections('שלום, 👩‍💻, \x1b[32mgreen\x1b[0m'), 'שלום, 👩‍💻, \x1b[32mgreen\x1b[0m')
})

test('volume lists the volumes that were lost with nodes, and gives one back by its name or id', async () => {
  const listed = await runVerb(volumeVerbs, ['lost'], volumeParts)
  assert.match(listed, /data +id-of-data +id-1 +2026-01-02 03:04 +not there; was on node 0a24/)
  assert.match(listed, /models +id-of-models +id-1 +2026-01-02 03:04 +on node 0a24$/)
  for (const word of ['models', 'id-of-models']) {
    const answer = await runVerb(volumeVerbs, ['recover', word, '--name', 'new'], volumeParts)
    assert.equal(answer, 'The volume models is back; it belongs to team id-1.')
    assert.deepEqual(asked.at(-1)?.body, { name: 'new' })
  }
  await assert.rejects(runVerb(volumeVerbs, ['recover'], neverVolumes), UsageError)
})

test('recover lists what is in quarantine, gives a sandbox back, or deletes its snapshot', async () => {
  assert.match(
    await recoverCommand([], connect),
    /ione-run +ione +2026-01-02 03:04 +2026-01-09 03:04 +No row/,
  )
  assert.match(await recoverCommand(['ione-run'], connect), /^The sandbox ione of team id-1 is paused/)
  assert.equal(await recoverCommand(['ione-run', '--remove'], connect), 'The snapshot ione-run is removed.')
  for (const bad of [['--remove'], ['a', 'b'], ['--force']]) {
    await assert.rejects(recoverCommand(bad, neverConnect), UsageError)
  }
})

test('prune reports the bytes that it freed, or would free', async () => {
  const text = await pruneCommand(['--dry-run'], connect)
  assert.match(text, /cached build steps +3 +-\n.*snapshots +2 +0\.5 MiB\nimage layers +1 +2\.9 MiB\n/)
  assert.match(text, /\nWould free 3\.3 MiB\.$/)
  assert.deepEqual(JSON.parse(await pruneCommand(['--json'], connect)), report)
  assert.deepEqual(
    asked.map(({ body }) => body),
    [{ dryRun: true }, { dryRun: false }],
  )
  for (const bad of [['now'], ['--force']]) await assert.rejects(pruneCommand(bad, neverConnect), UsageError)
})

test('volumes of another team are made, listed, and deleted by name or id', async () => {
  const forTeam = (...args: string[]) => runVerb(volumeVerbs, [...args, '--team', team.slug], volumeParts)
  assert.match(await forTeam('list'), /^VOLUME +ID +SIZE +CREATED\ndata +id-v +64 MiB +2026-01-02$/)
  assert.match(await forTeam('create', 'data'), /^The volume data is ready\. .*--volume data:\/data/)
  assert.deepEqual(asked.at(-1)?.body, { name: 'data' })
  for (const word of ['data', 'id-v']) {
    assert.equal(await forTeam('delete', word), 'The volume data is deleted.')
    assert.equal(asked.at(-1)?.path, '/volumes/id-v')
  }
  await assert.rejects(forTeam('delete', 'x'), /no volume 'x'\. `warren volume list` shows/)
  for (const bad of [['list', 'x'], ['delete'], ['create'], []])
    await assert.rejects(runVerb(volumeVerbs, bad, neverVolumes), UsageError)
})
