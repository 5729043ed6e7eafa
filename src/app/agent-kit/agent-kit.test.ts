import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { get } from 'node:http'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { createAgentClient } from '../../agent-client/agent-client.ts'
import { envdPort } from '../../contract/constants.ts'
import { runCommand } from '../../lib/run-command.ts'
import { type AgentKit, buildAgentKit } from './agent-kit.ts'
import { foreignPathsIn } from './kit-paths.ts'

suite('the agent kit', () => {
  let parent: string
  let folder: string
  let kit: AgentKit
  before(async () => {
    parent = await mkdtemp(join(tmpdir(), 'warren-kit-'))
    folder = join(parent, 'agent')
    kit = await buildAgentKit({ folder, nodeBinary: process.execPath })
  })
  after(() => rm(parent, { recursive: true, force: true }))

  test('is built once and then found again', async () => {
    const { mtimeMs } = await stat(kit.folder)
    assert.deepEqual(await buildAgentKit({ folder, nodeBinary: process.execPath }), kit)
    assert.equal((await stat(kit.folder)).mtimeMs, mtimeMs)
    assert.deepEqual(await readdir(folder), [kit.folder.slice(folder.length + 1)])
  })

  test('another Node makes another kit, and the same Node with another date the same one', async () => {
    const node = join(kit.folder, 'node')
    const other = await buildAgentKit({ folder, nodeBinary: node })
    assert.notEqual(other.folder, kit.folder)
    await utimes(node, 1, 1)
    assert.equal((await buildAgentKit({ folder, nodeBinary: node })).folder, other.folder)
    await rm(other.folder, { recursive: true })
  })

  test('everybody may run all of it and read all except the sealed init; only its owner may write', async () => {
    for (const entry of await readdir(kit.folder, { recursive: true, withFileTypes: true })) {
      const { mode } = await stat(join(entry.parentPath, entry.name))
      const isText = /\.(?:cjs|cache)$/.test(entry.name)
      const wanted = isText ? 0o644 : entry.name === 'sealed-init' ? 0o711 : 0o755
      assert.equal(mode & 0o7777, wanted, entry.name)
    }
  })

  test('starts with init and contains only paths inside the sandbox', () => {
    assert.deepEqual(kit.command.slice(0, 2), ['/.warren/init', '--'])
    assert.deepEqual(kit.unreadableCommand, ['/.warren/sealed-init', ...kit.command.slice(1)])
    assert.ok(
      kit.command.filter((word) => word.startsWith('/')).every((word) => word.startsWith('/.warren/')),
    )
  })

  test('contains no path of an image that the loader, the C library or Node would read', async () => {
    const own = await readFile(process.execPath)
    assert.ok(foreignPathsIn(own).includes('/etc/resolv.conf'))
    for (const entry of await readdir(kit.folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue
      const program = await readFile(join(entry.parentPath, entry.name))
      assert.deepEqual(foreignPathsIn(program), [], entry.name)
    }
  })

  test('has a Node whose other texts are unchanged', async () => {
    const [program, ...words] = kit.command.slice(2, -1).map((word) => word.replace('/.warren', kit.folder))
    const code = `const { X509Certificate } = require('node:crypto'), [one] = require('node:tls').rootCertificates
      console.log(new X509Certificate(one).toString().includes('BEGIN CERT'), new Date(0).getHours())`
    const { stdout } = await runCommand(program!, [...words, '-e', code], { env: kit.env })
    assert.equal(stdout, 'true 0\n')
  })

  test('boots with its own files only, and without modules that take Node long to load', async (context) => {
    if (await isInUse(envdPort)) return context.skip(`port ${envdPort} is in use here`)
    const reporter = join(parent, 'tell.cjs')
    await writeFile(reporter, listModules)
    const [program, ...words] = kit.command.slice(2).map((word) => word.replace('/.warren', kit.folder))
    const stdio = ['ignore', 'pipe', 'ignore'] as const
    const child = spawn(program!, words.toSpliced(-1, 0, '-r', reporter), { env: kit.env, stdio: [...stdio] })
    try {
      const agent = { host: '127.0.0.1', port: envdPort }
      const identity = { accessToken: 'x', envVars: {}, defaultUser: 'root', defaultWorkdir: '/' }
      await createAgentClient().initialize(agent, identity, { deadlineMs: 20_000 })
      assert.equal(await createAgentClient().isHealthy(agent), true)
      const status = await new Promise((resolve) =>
        get({ ...agent, path: '/envs', agent: false }, (response) => resolve(response.statusCode)),
      )
      assert.equal(status, 401)
      const stat = await fetch(`http://127.0.0.1:${envdPort}/filesystem.Filesystem/Stat`, {
        method: 'POST',
        body: '{"path":"/"}',
        headers: { 'x-access-token': 'x', 'content-type': 'application/json' },
      })
      assert.equal(stat.status, 200)
      child.kill('SIGUSR2')
      const [output] = await once(child.stdout!, 'data')
      const loaded = String(output).split(',')
      assert.ok(loaded.includes('NativeModule http'))
      const late = ['cluster', 'child_process', 'crypto', 'perf_hooks'].map((name) => `NativeModule ${name}`)
      assert.deepEqual(
        late.filter((name) => loaded.includes(name)),
        [],
        'Every agent waits for these at its start: see src/lib/node-internals/direct-listen.ts, src/lib/clock.ts and src/lib/ids.ts.',
      )
    } finally {
      child.kill('SIGKILL')
    }
  })
})

/** For a program that Node runs with this file loaded first: it prints the modules of Node that it has loaded. */
const listModules = `process.on('SIGUSR2', () =>
  require('node:fs').writeSync(1, process.moduleLoadList.join()))`

async function isInUse(port: number): Promise<boolean> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', () => resolve(true))
    server.listen(port, () => server.close(() => resolve(false)))
  })
}
