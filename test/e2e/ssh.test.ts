/** Debian's own ssh, scp and sftp, through the server's one port. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { eventually } from '../support/eventually.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'
import { codeOf, type Ended, runCommandLine, startProgram } from '../support/warren-command.ts'

for (const isolation of isolations) {
  describe(`ssh (${isolation})`, () => {
    const folder = mkdtempSync(join(tmpdir(), 'warren-ssh-'))
    const path = (name: string) => join(folder, name)
    let warren: Warren
    let sandboxID: string
    let host: string
    before(async () => {
      warren = await joinWarren(isolation)
      sandboxID = (await out('sandbox', 'create', '--name', 'Box', '-e', 'OWN=yes')).trim()
      host = `${sandboxID}.warren`
      writeFileSync(path('config'), await out('ssh-config'))
    })
    after(async () => {
      await warren?.stop()
      rmSync(folder, { recursive: true })
    })

    const out = async (...args: string[]) => {
      const ended = await runCommandLine(warren.environment, args)
      assert.equal(ended.code, 0, ended.error)
      return ended.out
    }
    const start = (name: string, args: string[]) => {
      const child = startProgram(warren.environment, name, ['-F', path('config'), ...args])
      child.stdin.on('error', () => {})
      return child
    }
    /** Waits for more output. Rejects if the program ends without it. */
    const spoken = async (child: ReturnType<typeof start>): Promise<void> => {
      const said = once(child.stdout, 'data').then(() => 'something')
      const ended = codeOf(child).then((code) => `nothing: it ended with ${code}`)
      assert.equal(await Promise.race([said, ended]), 'something')
    }
    const run = async (name: string, args: string[], input: string | Buffer = ''): Promise<Ended> => {
      const child = start(name, args)
      const code = codeOf(child)
      child.stdin.end(input)
      const [out, error] = await Promise.all([text(child.stdout), text(child.stderr)])
      return { code: await code, out, error }
    }
    const done = async (name: string, args: string[], input: string | Buffer = ''): Promise<string> => {
      const ended = await run(name, args, input)
      assert.deepEqual([ended.code, ended.error], [0, ''], `${name} ${args.join(' ')}: ${ended.out}`)
      return ended.out
    }

    it('runs commands as the user of the sandbox, or as the one that is named', async () => {
      const command = 'echo "$(whoami) $HOME $OWN"; cat; exit 5'
      const ended = await run('ssh', [host, command], 'from here')
      assert.deepEqual(ended, { code: 5, out: 'user /home/user yes\nfrom here', error: '' })
      assert.equal(await done('ssh', [`root@${host}`, 'id -u']), '0\n')
      const nobody = await run('ssh', [`alice@${host}`, 'true'])
      assert.equal(nobody.code, 255)
      assert.match(nobody.error, /The sandbox has no user 'alice'/)
      assert.equal(await out('ssh', '-u', 'root', 'Box', 'echo', 'as', '$USER'), 'as root\n')
    })

    it('gives a shell a terminal, on which programs are interrupted', async () => {
      const shell = start('ssh', ['-tt', 'Box.warren'])
      let seen = ''
      shell.stdout.on('data', (bytes) => (seen += bytes))
      const until = async (pattern: RegExp) => {
        while (!pattern.test(seen))
          await spoken(shell).catch((error) => assert.match(seen, pattern, String(error)))
      }
      shell.stdin.write('tty; shopt -q login_shell && echo of login\n')
      await until(/\/dev\/pts\/\d+\r.*of login\r/s)
      // It says so as the program in the foreground: a Ctrl-C before that would reach the shell alone.
      shell.stdin.write('sh -c "echo sleeping; exec sleep 60"\n')
      await until(/sleeping\r/)
      // Not every terminal shows it.
      await eventually(() => {
        const isOver = /sleeping\r\n.*\$ /s.test(seen)
        if (!isOver) shell.stdin.write('\x03')
        assert.ok(isOver, seen)
      })
      shell.stdin.write('echo "after $?"; exit 4\n')
      await until(/after 130/)
      assert.equal(await codeOf(shell), 4)
    })

    it('copies by scp and sftp, as the user', async () => {
      const bytes = Buffer.alloc(3_000_000, 'warren ')
      writeFileSync(path('sent'), bytes)
      await done('scp', ['-q', path('sent'), `${host}:`])
      assert.equal(await done('ssh', [host, 'stat -c "%U %s %n" ~/sent']), 'user 3000000 /home/user/sent\n')
      await done('scp', ['-q', `${host}:sent`, path('back')])
      assert.deepEqual(readFileSync(path('back')), bytes)
      // Without SFTP, by the program of the sandbox.
      await done('scp', ['-q', '-O', `${host}:/etc/os-release`, path('release')])
      assert.match(readFileSync(path('release'), 'utf8'), /Debian/)
      const closed = await run('scp', ['-q', path('sent'), `${host}:/etc/sent`])
      assert.notEqual(closed.code, 0)
      assert.match(closed.error, /[Pp]ermission denied/)
      const batch = [
        'mkdir a',
        'symlink /etc/hostname a/link',
        'rename sent a/moved',
        'chmod 600 a/moved',
        'ls -l a',
        '',
      ]
      const listed = await done('sftp', ['-q', '-b', '-', host], batch.join('\n'))
      assert.match(listed, /^l\S+ +\S+ user +user .* link$/m)
      assert.match(listed, /^-rw-------.* 3000000 .* moved$/m)
      assert.equal(await done('ssh', [host, 'readlink a/link']), '/etc/hostname\n')
    })

    it('clones by git, and forwards ports in both directions', async () => {
      await done('ssh', [
        host,
        'git init -q repo && cd repo && git config user.email a@b && git config user.name a && echo 1 > f && git add f && git commit -qm first',
      ])
      const git = startProgram(
        { ...warren.environment, GIT_SSH_COMMAND: `ssh -F ${path('config')}` },
        'git',
        [...['clone', '-q', `ssh://${host}/~/repo`, path('repo')]],
      )
      const said = text(git.stderr)
      assert.equal(await codeOf(git), 0, await said)
      assert.equal(readFileSync(path('repo/f'), 'utf8'), '1\n')

      const local = createServer((socket) => socket.end('from the client'))
      local.listen(0, '127.0.0.1')
      await once(local, 'listening')
      const { port } = local.address() as { port: number }
      const free = await freePort()
      const server = `python3 -c 'import socket
s = socket.create_server(("127.0.0.1", 4567))
print("serves", flush=True)
c, _ = s.accept()
c.sendall(socket.create_connection(("127.0.0.1", 4568)).makefile().read().encode() + b" and back")'`
      const forwards = ['-L', `${free}:localhost:4567`, '-R', `4568:127.0.0.1:${port}`]
      const child = start('ssh', [...forwards, '-o', 'ExitOnForwardFailure=yes', host, server])
      await spoken(child)
      const socket = connect(free, '127.0.0.1')
      assert.equal(await text(socket), 'from the client and back')
      assert.equal(await codeOf(child), 0)
      local.close()
    })

    it('says that a sandbox is paused, and what ended it under a session', async () => {
      const session = start('ssh', [host, 'echo here; sleep 60'])
      await spoken(session)
      const [said, code] = [text(session.stderr), codeOf(session)]
      await out('sandbox', 'pause', 'Box')
      assert.match(await said, /The sandbox was paused while the command ran\. `warren sandbox resume/)
      assert.equal(await code, 255)
      const paused = await run('ssh', [host, 'true'])
      assert.match(
        paused.error,
        new RegExp(`The sandbox ${sandboxID} is paused\\. Run .warren sandbox resume`),
      )
      await out('sandbox', 'resume', 'Box')
      assert.equal(await done('ssh', [host, 'cat ~/a/moved | wc -c']), '3000000\n')
      await out('kill', 'Box')
      const gone = await run('ssh', [host, 'true'])
      assert.match(gone.error, /doesn't exist|not found/)
    })
  })
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}
