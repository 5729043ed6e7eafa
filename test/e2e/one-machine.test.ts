/** What Warren is on a machine: one open port, a good neighbour to other Warrens, at home on either database. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { Sandbox, Template } from 'e2b'
import { eventually } from '../support/eventually.ts'
import { everythingRequired, postgresMissing, startPostgres } from '../support/postgres.ts'
import { type Isolation, noWarmPool, startWarren } from '../support/warren.ts'

const missing = postgresMissing()

const tryingTo = (host: string, port: string) =>
  `timeout 3 bash -c 'exec 3<>/dev/tcp/${host}/${port}' 2>/dev/null && echo reached || echo closed`
const reach = (host: string, port: string) =>
  execFileSync('sh', ['-c', tryingTo(host, port)], { encoding: 'utf8' })

describe('one machine', () => {
  it('only the one port can be reached, on the configured address', async () => {
    const warren = await startWarren('container', { settings: noWarmPool })
    try {
      const sandbox = await Sandbox.create('base', warren.client)
      const sockets = execFileSync('ss', ['-Hltunp'], { encoding: 'utf8' })
      const all = sockets.split('\n').filter((line) => line.includes(`pid=${warren.pid},`))
      const listening = all.map((line) => line.trim().split(/\s+/)[4]!)
      const door = `127.0.0.1:${new URL(warren.url).port}`
      assert.equal(listening.filter((one) => one === door).length, 1, sockets)
      // The egress gate, which nobody but sandboxes whose packets are handed to it may speak to.
      const address = (await sandbox.commands.run('hostname -I')).stdout.trim()
      const [network] = /^\d+\.\d+\./.exec(address)!
      for (const gate of listening.filter((one) => one !== door)) {
        const [host, port] = gate.split(':') as [string, string]
        assert.ok(host.startsWith(network), sockets)
        const tries = {
          here: reach(host, port),
          sandbox: (await sandbox.commands.run(tryingTo(host, port))).stdout,
        }
        assert.deepEqual(tries, { here: 'closed\n', sandbox: 'closed\n' })
      }
      // Another process of Warren would have sockets that the list above does not show.
      const children = () => spawnSync('ps', ['--ppid', String(warren.pid)], { encoding: 'utf8' }).status
      await eventually(() => assert.equal(children(), 1))
      await sandbox.kill()
    } finally {
      await warren.stop()
    }
  })

  it('two Warrens run side by side: no key of one opens the other, and their sandboxes cannot reach each other', async () => {
    const [one, two] = await Promise.all([
      startWarren('container', { settings: noWarmPool }),
      startWarren('gvisor', { settings: noWarmPool }),
    ])
    try {
      const [mine, theirs] = await Promise.all([
        Sandbox.create('base', one.client),
        Sandbox.create('base', two.client),
      ])
      await theirs.commands.run('python3 -m http.server 8000', { background: true, timeoutMs: 0 })
      const address = (await theirs.commands.run('hostname -I')).stdout.trim()
      assert.match(address, /^10\.\d+\./)
      const reach = `curl --silent --max-time 3 http://${address}:8000/ >/dev/null && echo reached || echo closed`
      await eventually(async () => assert.equal((await theirs.commands.run(reach)).stdout, 'reached\n'))
      assert.equal((await mine.commands.run(reach)).stdout, 'closed\n')
      assert.deepEqual(
        (await Sandbox.list(one.client).nextItems()).map((item) => item.sandboxId),
        [mine.sandboxId],
      )
      // No secret has a default: what opens one Warren opens no other, though both were made in the same way.
      const asOperator = { headers: { 'X-Admin-Token': one.adminToken }, key: null }
      assert.equal((await two.api('/v2/sandboxes', { key: one.apiKey })).status, 401)
      assert.equal((await two.api('/admin/teams', asOperator)).status, 401)
      await Promise.all([mine.kill(), theirs.kill()])
    } finally {
      await Promise.all([one.stop(), two.stop()])
    }
  })

  it('PostgreSQL works as well as SQLite', { skip: !everythingRequired && missing }, async () => {
    const postgres = await startPostgres()
    try {
      const settings = { ...noWarmPool, WARREN_DATABASE_URL: await postgres.createDatabase() }
      let warren = await startWarren('container', { settings, name: 'postgres', portOffset: 10 })
      try {
        const sandbox = await Sandbox.create('base', { ...warren.client, metadata: { on: 'postgres' } })
        await warren.crash()
        warren = await startWarren('container', {
          settings,
          name: 'postgres',
          portOffset: 10,
          keepData: true,
        })
        assert.equal((await sandbox.commands.run('echo kept')).stdout, 'kept\n')
        const rows = ['-tAc', 'select id from sandboxes', settings.WARREN_DATABASE_URL]
        assert.equal(execFileSync('psql', rows, { encoding: 'utf8' }).trim(), sandbox.sandboxId)
        assert.equal(existsSync(join(warren.dataFolder, 'warren.db')), false)
        const query = { metadata: { on: 'postgres' } }
        const found = await Sandbox.list({ ...warren.client, query }).nextItems()
        assert.deepEqual(
          found.map((item) => item.sandboxId),
          [sandbox.sandboxId],
        )
        assert.equal(await sandbox.kill(), true)
      } finally {
        await warren.stop()
      }
    } finally {
      await postgres.stop()
    }
  })

  it("two Warrens over one PostgreSQL do not touch each other's sandboxes", {
    skip: !everythingRequired && missing,
  }, async () => {
    const postgres = await startPostgres()
    const settings = { WARREN_DATABASE_URL: await postgres.createDatabase() }
    const start = (isolation: Isolation, keepData = false) =>
      startWarren(isolation, { settings, name: 'shared', keepData })
    let [one, two] = await Promise.all([start('container'), start('gvisor')])
    try {
      const build = () =>
        Template.build(Template().fromTemplate('base').runCmd('echo built > ~/built'), 'shared', one.client)
      await build()
      const options = { ...one.client, timeoutMs: 3_600_000 }
      const [running, paused] = [
        await Sandbox.create('shared', options),
        await Sandbox.create('base', options),
      ]
      await paused.files.write('/home/user/note', 'kept')
      await paused.pause()
      const theirs = await Sandbox.create('base', { ...two.client, timeoutMs: 3_600_000 })

      // Both keys are of the same team, which sees all that it has; but a Warren acts only on what it owns.
      assert.deepEqual(
        new Set((await Sandbox.list(two.client).nextItems()).map((item) => item.sandboxId)),
        new Set([running, paused, theirs].map(({ sandboxId }) => sandboxId)),
      )
      await assert.rejects(Sandbox.kill(running.sandboxId, two.client), /is on node \w+, .* Ask that Warren/)
      const asOperator = { headers: { 'X-Admin-Token': two.adminToken }, key: null, body: {} }
      assert.equal((await two.api('/admin/prune', asOperator)).status, 200)
      // A start reconciles everything.
      await two.crash()
      two = await start('gvisor', true)
      await one.crash()
      one = await start('container', true)

      assert.equal((await running.commands.run('cat ~/built')).stdout, 'built\n')
      assert.equal((await theirs.commands.run('echo alive')).stdout, 'alive\n')
      await paused.connect()
      assert.equal(await paused.files.read('/home/user/note'), 'kept')
      const lines: string[] = []
      const onBuildLogs = ({ message }: { message: string }) => void lines.push(message)
      const again = Template().fromTemplate('base').runCmd('echo built > ~/built')
      await Template.build(again, 'shared', { ...one.client, onBuildLogs })
      assert.ok(
        lines.some((line) => /CACHED/i.test(line)),
        lines.join('\n'),
      )
      await Promise.all([running, paused, theirs].map((sandbox) => sandbox.kill()))
    } finally {
      await Promise.all([one.stop(), two.stop()])
      await postgres.stop()
    }
  })
})
