/** The agent and the client's calls in three roots: Debian, one whose only libc is musl, and busybox alone. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { AuthenticationError, CommandExitError, NotFoundError, Sandbox } from 'e2b'
import { eventually } from '../support/eventually.ts'
import { fetchByHost } from '../support/fetch-by-host.ts'
import { busyboxRoot, muslRoot } from '../support/roots.ts'
import { isolations, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

type Root = {
  name: string
  settings: () => Promise<Record<string, string>>
  /** Serves the folder `site`. */
  serve: (address: string, port: number) => string
}

const folder = async (path: Promise<string>) => ({ WARREN_BASE_IMAGE: `folder:${await path}` })
const busyboxServer = (address: string, port: number) => `httpd -f -p ${address}:${port} -h site`
const roots: Root[] = [
  {
    name: 'Debian',
    settings: async () => ({}),
    serve: (address, port) => `python3 -m http.server ${port} --bind ${address} -d site`,
  },
  { name: 'musl', settings: () => folder(muslRoot()), serve: busyboxServer },
  { name: 'busybox', settings: () => folder(busyboxRoot()), serve: busyboxServer },
]

for (const isolation of isolations) {
  for (const root of roots) {
    describe(`${root.name}, ${isolation}`, () => {
      let warren: Warren
      let sandbox: Sandbox
      before(async () => {
        warren = await startWarren(isolation, { settings: { ...noWarmPool, ...(await root.settings()) } })
        sandbox = await Sandbox.create('base', { ...warren.client, envs: { GREETING: 'hello' } })
      })
      after(async () => {
        await sandbox?.kill()
        await warren?.stop()
      })
      const run = async (...args: Parameters<Sandbox['commands']['run']>) =>
        (await sandbox.commands.run(...args)).stdout

      it('runs commands and returns output, errors and exit codes', async () => {
        const good = await sandbox.commands.run('echo out; echo err >&2')
        assert.deepEqual([good.stdout, good.stderr, good.exitCode], ['out\n', 'err\n', 0])
        await assert.rejects(sandbox.commands.run('echo partial; exit 7'), (error: unknown) => {
          assert.ok(error instanceof CommandExitError)
          assert.deepEqual([error.exitCode, error.stdout], [7, 'partial\n'])
          return true
        })
        await assert.rejects(sandbox.commands.run('kill -KILL $$'), CommandExitError)
      })

      it('gives commands their environment, directory and user', async () => {
        assert.equal(await run('echo $GREETING $OWN', { envs: { OWN: 'mine' } }), 'hello mine\n')
        assert.equal(await run('whoami; pwd; echo $HOME'), 'user\n/home/user\n/home/user\n')
        assert.equal(await run('whoami; id -G', { user: 'root' }), 'root\n0\n')
        assert.equal(await run('pwd', { cwd: '/tmp' }), '/tmp\n')
        assert.equal(await run('id -G'), root.name === 'busybox' ? '1000 2000\n' : '1000\n')
        assert.equal(await run('stat -c "%U %a" /home/user /tmp'), 'user 755\nroot 1777\n')
        await assert.rejects(sandbox.commands.run('pwd', { user: 'stranger' }), AuthenticationError)
      })

      it('keeps the dynamic loader that its owner configured', async () => {
        assert.equal(await run('env | grep ^LD_ || echo none'), 'none\n')
        const envs = { LD_LIBRARY_PATH: '/nowhere' }
        assert.equal(await run('echo $LD_LIBRARY_PATH', { envs }), '/nowhere\n')
      })

      it('feeds standard input, and background commands can be joined and killed', async () => {
        const options = { background: true as const, timeoutMs: 0, stdin: true }
        const reader = await sandbox.commands.run('read line; echo got $line', options)
        await reader.disconnect()
        const again = await sandbox.commands.connect(reader.pid)
        await sandbox.commands.sendStdin(reader.pid, 'word\n')
        assert.equal((await again.wait()).stdout, 'got word\n')
        const sleeper = await sandbox.commands.run('sleep 300', { background: true, timeoutMs: 0 })
        assert.equal(await run(`kill -0 ${sleeper.pid} && echo alive`), 'alive\n')
        assert.equal(await sleeper.kill(), true)
        await assert.rejects(sleeper.wait(), CommandExitError)
        await eventually(async () => assert.doesNotMatch(await run('ps'), /sleep 300/))
      })

      it('writes, reads, lists, describes, moves and removes files', async () => {
        const text = 'grüße\n'.repeat(10_000)
        await sandbox.files.write('tree/deep/a.txt', text)
        assert.equal(await sandbox.files.read('tree/deep/a.txt'), text)
        assert.equal(await run('wc -c < tree/deep/a.txt'), `${Buffer.byteLength(text)}\n`)
        await run('ln -s a.txt tree/deep/link; chmod 640 tree/deep/a.txt')
        const paths = (await sandbox.files.list('tree', { depth: 2 })).map(({ path }) => path)
        const deep = '/home/user/tree/deep'
        assert.deepEqual(paths, [deep, `${deep}/a.txt`, `${deep}/link`])
        const { owner, group, permissions, size } = await sandbox.files.getInfo('tree/deep/a.txt')
        const wanted = ['user', 'user', '-rw-r-----', Buffer.byteLength(text)]
        assert.deepEqual([owner, group, permissions, size], wanted)
        await sandbox.files.rename('tree/deep/a.txt', 'tree/b.txt')
        assert.equal(await run('ls tree'), 'b.txt\ndeep\n')
        await sandbox.files.remove('tree')
        await assert.rejects(sandbox.files.read('tree/b.txt'), NotFoundError)
      })

      it('serves ports on all addresses and on loopback only', async () => {
        await sandbox.files.write('site/index.html', 'from inside')
        for (const [port, address] of [
          [8001, '0.0.0.0'],
          [8002, '127.0.0.1'],
        ] as const) {
          await sandbox.commands.run(root.serve(address, port), { background: true, timeoutMs: 0 })
          const host = sandbox.getHost(port)
          await eventually(async () => assert.equal(await fetchByHost(warren.url, host), 'from inside'))
        }
      })

      it('opens terminals that can be typed into, resized and killed', async () => {
        const decoder = new TextDecoder()
        let seen = ''
        const onData = (data: Uint8Array) => {
          seen += decoder.decode(data, { stream: true })
        }
        const type = (line: string) => sandbox.pty.sendInput(pty.pid, new TextEncoder().encode(`${line}\n`))
        const pty = await sandbox.pty.create({ cols: 80, rows: 24, onData, timeoutMs: 0 })
        await type('stty size; whoami; echo sum-$((6*7))')
        await eventually(() => assert.match(seen, /24 80\s+user\s+sum-42/))
        await sandbox.pty.resize(pty.pid, { cols: 100, rows: 30 })
        await type('stty size')
        await eventually(() => assert.match(seen, /30 100/))
        assert.equal(await sandbox.pty.kill(pty.pid), true)
        await assert.rejects(pty.wait(), CommandExitError)
      })

      it('reports changes in a folder', async () => {
        await sandbox.files.makeDir('watched')
        const seen: string[] = []
        const watcher = await sandbox.files.watchDir(
          'watched',
          ({ type, name }) => void seen.push(`${type} ${name}`),
          { recursive: true },
        )
        await run('mkdir watched/sub; sleep 0.2; echo 1 > watched/sub/a; rm watched/sub/a')
        await eventually(() => {
          for (const event of ['create sub', 'create sub/a', 'write sub/a', 'remove sub/a']) {
            assert.ok(seen.includes(event), `${event} is not in ${seen}`)
          }
        })
        await watcher.stop()
      })

      if (root.name !== 'Debian') {
        it("contains no glibc except the agent's own", async () => {
          const search = 'find / -xdev \\( -name "libc.so.6" -o -name "ld-linux*" -o -name "libc-*" \\)'
          assert.equal(await run(`${search} ! -path "/.warren/*" 2>/dev/null || true`, { user: 'root' }), '')
        })
      }

      if (root.name === 'musl') {
        it('runs a program that is linked with musl, as any user', async () => {
          assert.equal(await run('musl-program'), 'user 42\n')
          assert.equal(await run('musl-program', { user: 'root' }), 'root 42\n')
        })
      }
    })
  }
}
