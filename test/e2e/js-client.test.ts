/** The unmodified JavaScript clients against a real Warren with real sandboxes, on both runtimes. */
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import * as current from 'e2b'
import { eventually } from '../support/eventually.ts'
import { fetchByHost } from '../support/fetch-by-host.ts'
import { javaScriptReleases } from '../support/releases.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

// The two releases share the surface used here; their type declarations are not assignable to each other.

for (const isolation of isolations) {
  describe(`JavaScript clients, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await joinWarren(isolation)
    })
    after(() => warren?.stop())

    for (const [version, { Sandbox, CommandExitError, ...client }] of javaScriptReleases(isolation, 'same')) {
      describe(`e2b ${version}`, () => {
        let sandbox: current.Sandbox
        before(async () => {
          const options = { ...warren.client, metadata: { suite: version }, envs: { GREETING: 'hello' } }
          sandbox = await Sandbox.create('base', { ...options, timeoutMs: 3_600_000 })
        })
        after(() => sandbox?.kill())

        it('runs a command and returns its output, errors and exit code', async () => {
          const good = await sandbox.commands.run('echo out; echo err >&2')
          assert.deepEqual([good.stdout, good.stderr, good.exitCode], ['out\n', 'err\n', 0])
          await assert.rejects(sandbox.commands.run('echo partial; exit 7'), (error: unknown) => {
            assert.ok(error instanceof CommandExitError)
            assert.deepEqual([error.exitCode, error.stdout], [7, 'partial\n'])
            return true
          })
        })

        it('gives a command the environment of the sandbox, then its own', async () => {
          const own = await sandbox.commands.run('echo $GREETING $OWN $E2B_SANDBOX_ID', {
            envs: { OWN: 'mine' },
          })
          assert.equal(own.stdout, `hello mine ${sandbox.sandboxId}\n`)
          const overridden = await sandbox.commands.run('echo $GREETING', { envs: { GREETING: 'bye' } })
          assert.equal(overridden.stdout, 'bye\n')
        })

        it('runs as the default user in its home, as root, and in a given folder', async () => {
          assert.equal((await sandbox.commands.run('whoami; pwd')).stdout, 'user\n/home/user\n')
          assert.equal(
            (await sandbox.commands.run('whoami; pwd', { user: 'root' })).stdout,
            'root\n/home/user\n',
          )
          assert.equal((await sandbox.commands.run('pwd', { cwd: '/tmp' })).stdout, '/tmp\n')
          assert.equal((await sandbox.commands.run('sudo whoami')).stdout, 'root\n')
          await assert.rejects(sandbox.commands.run('pwd', { cwd: '/nowhere' }), client.InvalidArgumentError)
          await assert.rejects(sandbox.commands.run('pwd', { user: 'stranger' }), client.AuthenticationError)
        })

        it('streams output while the command runs, and background commands can be waited for and killed', async () => {
          const seen: { text: string; at: number }[] = []
          const handle = await sandbox.commands.run('echo first; read line; echo got $line', {
            background: true,
            timeoutMs: 0,
            stdin: true,
            onStdout: (text) => void seen.push({ text, at: seen.length }),
          })
          await eventually(() => assert.equal(seen[0]?.text, 'first\n'))
          await sandbox.commands.sendStdin(handle.pid, 'word\n')
          const result = await handle.wait()
          assert.equal(result.stdout, 'first\ngot word\n')

          const sleeper = await sandbox.commands.run('sleep 300', { background: true, timeoutMs: 0 })
          const listed = await sandbox.commands.list()
          assert.ok(listed.some((process) => process.pid === sleeper.pid))
          const inside = await sandbox.commands.run(`kill -0 ${sleeper.pid} && echo alive`)
          assert.equal(inside.stdout, 'alive\n')
          assert.equal(await sleeper.kill(), true)
          await assert.rejects(sleeper.wait(), CommandExitError)
          assert.equal(await sandbox.commands.kill(sleeper.pid), false)
        })

        it('reconnects to a running command', async () => {
          const handle = await sandbox.commands.run('read line; echo got $line', {
            background: true,
            timeoutMs: 0,
            stdin: true,
          })
          await handle.disconnect()
          const again = await sandbox.commands.connect(handle.pid)
          await sandbox.commands.sendStdin(handle.pid, 'later\n')
          assert.equal((await again.wait()).stdout, 'got later\n')
        })

        it('ends a command at its timeout', async () => {
          await assert.rejects(sandbox.commands.run('sleep 300', { timeoutMs: 1000 }), client.TimeoutError)
        })

        it('writes and reads text, bytes and a file of 64 MiB', async () => {
          const text = 'grüße\n'.repeat(100)
          await sandbox.files.write('notes/a.txt', text)
          assert.equal(await sandbox.files.read('/home/user/notes/a.txt'), text)
          const small = randomBytes(1000)
          await sandbox.files.write(
            'bytes.bin',
            small.buffer.slice(small.byteOffset, small.byteOffset + 1000) as ArrayBuffer,
          )
          assert.deepEqual(Buffer.from(await sandbox.files.read('bytes.bin', { format: 'bytes' })), small)
          const large = randomBytes(64 * 1024 * 1024)
          await sandbox.files.write('large.bin', new Blob([large]))
          const back = Buffer.from(await sandbox.files.read('large.bin', { format: 'bytes' }))
          const digest = (data: Buffer) => createHash('sha256').update(data).digest('hex')
          assert.equal(digest(back), digest(large))
          const sum = await sandbox.commands.run('sha256sum large.bin | cut -d" " -f1; rm large.bin')
          assert.equal(sum.stdout.trim(), digest(large))
        })

        it('lists, stats, moves and removes files', async () => {
          assert.equal(await sandbox.files.makeDir('tree/deep'), true)
          assert.equal(await sandbox.files.makeDir('tree/deep'), false)
          await sandbox.files.write('tree/one.txt', '1')
          await sandbox.files.write('tree/deep/two.txt', '22')
          const names = (await sandbox.files.list('tree', { depth: 2 })).map((entry) => entry.path)
          assert.deepEqual(names, [
            '/home/user/tree/deep',
            '/home/user/tree/deep/two.txt',
            '/home/user/tree/one.txt',
          ])
          await sandbox.files.rename('tree/one.txt', 'tree/renamed.txt')
          assert.equal(await sandbox.files.exists('tree/one.txt'), false)
          const moved = await sandbox.files.getInfo('tree/renamed.txt')
          assert.deepEqual(
            [moved.name, moved.size, moved.owner, moved.permissions],
            ['renamed.txt', 1, 'user', '-rw-r--r--'],
          )
          await sandbox.files.remove('tree')
          assert.equal(await sandbox.files.exists('tree'), false)
          await assert.rejects(sandbox.files.read('tree/one.txt'), client.NotFoundError)
        })

        it('finds itself in lists by state, metadata and page', async () => {
          const other = await Sandbox.create('base', {
            ...warren.client,
            metadata: { suite: version, 'k y': 'v&=' },
          })
          try {
            const query = { metadata: { suite: version }, state: ['running' as const] }
            const pages = Sandbox.list({ ...warren.client, query, limit: 1 })
            const found: string[] = []
            while (pages.hasNext) found.push(...(await pages.nextItems()).map((item) => item.sandboxId))
            assert.deepEqual(found, [other.sandboxId, sandbox.sandboxId])
            const odd = Sandbox.list({ ...warren.client, query: { metadata: { 'k y': 'v&=' } } })
            assert.deepEqual(
              (await odd.nextItems()).map((item) => item.sandboxId),
              [other.sandboxId],
            )
            const paused = Sandbox.list({ ...warren.client, query: { state: ['paused'] } })
            assert.deepEqual(await paused.nextItems(), [])
          } finally {
            await other.kill()
          }
        })

        it('can be connected to again, and returns its information', async () => {
          const same = await Sandbox.connect(sandbox.sandboxId, warren.client)
          assert.equal((await same.commands.run('echo same')).stdout, 'same\n')
          const details = await same.getInfo()
          assert.equal(details.name, 'base')
          assert.deepEqual([details.state, details.metadata], ['running', { suite: version }])
        })

        it('keeps its timeout on connect, and set-timeout moves the end both ways', async () => {
          const endOf = async () => (await sandbox.getInfo()).endAt.getTime()
          const long = await endOf()
          await Sandbox.connect(sandbox.sandboxId, { ...warren.client, timeoutMs: 10_000 })
          assert.equal(await endOf(), long, 'connect must never shorten a life')
          await sandbox.setTimeout(1_800_000)
          assert.ok((await endOf()) < long)
          await sandbox.setTimeout(7_200_000)
          assert.ok((await endOf()) > long)
        })

        it('ends at its timeout and is not found by any call afterwards', async () => {
          const brief = await Sandbox.create('base', { ...warren.client, timeoutMs: 5000 })
          assert.equal(await brief.isRunning(), true)
          await eventually(async () => assert.equal(await brief.isRunning(), false))
          await assert.rejects(brief.commands.run('true'), /not running/)
          // While it is being ended, a kill is a part of that.
          await eventually(async () => assert.equal(await brief.kill(), false))
        })

        it('can be killed once, and a stream then breaks with a clear error', async () => {
          const doomed = await Sandbox.create('base', warren.client)
          const ticked = Promise.withResolvers<void>()
          const streaming = doomed.commands.run('while true; do echo tick; sleep 0.2; done', {
            timeoutMs: 0,
            onStdout: () => ticked.resolve(),
          })
          const outcome = assert.rejects(streaming, client.TimeoutError)
          await ticked.promise
          assert.equal(await doomed.kill(), true)
          await outcome
          assert.equal(await doomed.kill(), false)
          await assert.rejects(Sandbox.connect(doomed.sandboxId, warren.client), client.SandboxNotFoundError)
        })

        it('serves ports that listen on all addresses and on loopback only', async () => {
          await sandbox.files.write('site/index.html', 'from inside')
          for (const [port, address] of [
            [8001, '0.0.0.0'],
            [8002, '127.0.0.1'],
          ] as const) {
            await sandbox.commands.run(`python3 -m http.server ${port} --bind ${address} -d site`, {
              background: true,
              timeoutMs: 0,
            })
            const host = sandbox.getHost(port)
            assert.match(host, new RegExp(`^${port}-${sandbox.sandboxId}\\.`))
            await eventually(async () => assert.equal(await fetchByHost(warren.url, host), 'from inside'))
          }
        })
      })
    }

    it('keeps the sandboxes of teams apart', async () => {
      const operator = { 'X-Admin-Token': warren.adminToken }
      const made = await warren.api('/admin/teams', {
        body: { name: `other-${Date.now()}` },
        headers: operator,
        key: null,
      })
      const { teamID } = (await made.json()) as { teamID: string }
      const keyed = await warren.api(`/admin/teams/${teamID}/api-keys`, {
        body: { name: 'k' },
        headers: operator,
        key: null,
      })
      const { id, key } = (await keyed.json()) as { id: string; key: string }
      const theirs = { ...warren.client, apiKey: key }
      const mine = await current.Sandbox.create('base', warren.client)
      try {
        const list = current.Sandbox.list(theirs)
        assert.deepEqual(await list.nextItems(), [])
        await assert.rejects(current.Sandbox.connect(mine.sandboxId, theirs), current.SandboxNotFoundError)
        assert.equal(await current.Sandbox.kill(mine.sandboxId, theirs), false)
        await assert.rejects(current.Sandbox.getInfo(mine.sandboxId, theirs), current.SandboxNotFoundError)
        assert.equal(await mine.isRunning(), true)
        await warren.api(`/admin/teams/${teamID}/api-keys/${id}`, {
          method: 'DELETE',
          headers: operator,
          key: null,
        })
        await assert.rejects(current.Sandbox.list(theirs).nextItems(), current.AuthenticationError)
      } finally {
        await mine.kill()
      }
    })
  })
}
