/** Commands and terminals through the unmodified JavaScript clients, on both runtimes. */
import assert from 'node:assert/strict'
import http from 'node:http'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import * as current from 'e2b'
import { envdPort, header } from '../../src/contract/constants.ts'
import { countOf } from '../support/count-of.ts'
import { eventually } from '../support/eventually.ts'
import { javaScriptReleases } from '../support/releases.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

// The two releases share the surface used here; their type declarations are not assignable to each other.
type TerminalOptions = Parameters<current.Sandbox['pty']['create']>[0]
const bytes = (text: string) => new TextEncoder().encode(text)

/** A terminal, and what it has shown so far. */
async function openTerminal(sandbox: current.Sandbox, options: Partial<TerminalOptions> = {}) {
  const decoder = new TextDecoder()
  const shown = { text: '' }
  const onData = (data: Uint8Array) => {
    shown.text += decoder.decode(data, { stream: true })
  }
  const handle = await sandbox.pty.create({ cols: 80, rows: 24, onData, ...options })
  const type = (text: string) => sandbox.pty.sendInput(handle.pid, bytes(text))
  return { handle, pid: handle.pid, shown, onData, type }
}

/** More than the agent may hold at one time. */
const megabytes = countOf({ short: 150, long: 300 })

for (const isolation of isolations) {
  describe(`processes, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await joinWarren(isolation)
    })
    after(() => warren?.stop())

    for (const [version, { Sandbox, CommandExitError, ...client }] of javaScriptReleases(isolation, 'same')) {
      describe(`e2b ${version}`, () => {
        let sandbox: current.Sandbox
        before(async () => {
          sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
        })
        after(() => sandbox?.kill())

        it('opens a terminal, types, resizes, and gets its exit code', async () => {
          const { handle, pid, shown, type } = await openTerminal(sandbox, {
            cols: 91,
            rows: 31,
            cwd: '/tmp',
            envs: { OWN: 'mine' },
          })
          await type('stty size; tty; whoami; pwd; echo $OWN $TERM\r')
          await eventually(() =>
            assert.match(shown.text, /31 91\r\n\/dev\/pts\/\d+\r\nuser\r\n\/tmp\r\nmine xterm-256color\r\n/),
          )
          await sandbox.pty.resize(pid, { cols: 120, rows: 40 })
          await type('stty size\r')
          await eventually(() => assert.match(shown.text, /40 120\r\n/))
          assert.ok((await sandbox.commands.list()).some((process) => process.pid === pid))
          await type('exit 6\r')
          await assert.rejects(handle.wait(), (error: unknown) => {
            assert.ok(error instanceof CommandExitError)
            return error.exitCode === 6
          })
        })

        it('interrupts a program in a terminal, and runs one as root', async () => {
          const { handle, shown, type } = await openTerminal(sandbox, { user: 'root' })
          await type('whoami; sleep 602\r')
          await eventually(() => assert.match(shown.text, /root\r\n/))
          // Between two commands a shell may miss it.
          await eventually(async () => void (await sandbox.commands.run('pgrep -f "^sleep 602"')))
          await type('\x03')
          await type('echo in$((1))terrupted\r')
          await eventually(() => assert.match(shown.text, /in1terrupted\r\n/))
          assert.equal(await handle.kill(), true)
        })

        it('kills a terminal, once, with its programs', async () => {
          const { handle, pid, type } = await openTerminal(sandbox)
          const running = async (count: string) => {
            const { stdout } = await sandbox.commands.run('ps -e -o args= | grep -c "^[s]leep 601" || true')
            assert.equal(stdout, count)
          }
          await type('sleep 601\n')
          await eventually(() => running('1\n'))
          assert.equal(await sandbox.pty.kill(pid), true)
          await assert.rejects(handle.wait(), CommandExitError)
          await eventually(async () => assert.equal(await sandbox.pty.kill(pid), false))
          await eventually(() => running('0\n'))
        })

        it('leaves a terminal and joins it again', async () => {
          const { handle, pid, shown, onData, type } = await openTerminal(sandbox, { timeoutMs: 0 })
          await type('cd /var; echo be$((0))fore\r')
          await eventually(() => assert.match(shown.text, /be0fore\r\n/))
          await handle.disconnect()
          shown.text = ''
          const again = await sandbox.pty.connect(pid, { onData })
          await type('pwd\r')
          await eventually(() => assert.match(shown.text, /\/var\r\n/))
          await again.kill()
        })

        it('stdin and terminal input are not mixed up', async () => {
          const { pid, handle } = await openTerminal(sandbox)
          await assert.rejects(sandbox.commands.sendStdin(pid, 'x'), client.SandboxError)
          await handle.kill()
          const command = await sandbox.commands.run('cat', { background: true, timeoutMs: 0, stdin: true })
          await assert.rejects(sandbox.pty.sendInput(command.pid, bytes('x')), client.SandboxError)
          await assert.rejects(sandbox.pty.resize(command.pid, { cols: 1, rows: 1 }), client.SandboxError)
          await command.kill()
        })

        it('stdin stays open until it is closed, and is rejected if it was not enabled', async () => {
          const reader = await sandbox.commands.run('cat; echo end', {
            background: true,
            timeoutMs: 0,
            stdin: true,
          })
          await sandbox.commands.sendStdin(reader.pid, 'żółć ')
          await sandbox.commands.sendStdin(reader.pid, '🐇\n')
          await sandbox.commands.closeStdin(reader.pid)
          assert.equal((await reader.wait()).stdout, 'żółć 🐇\nend\n')
          const closed = await sandbox.commands.run('sleep 600', { background: true, timeoutMs: 0 })
          await assert.rejects(sandbox.commands.sendStdin(closed.pid, 'x'), client.SandboxError)
          await closed.kill()
        })

        it('a command that takes too long is killed, with all its children', async () => {
          const running = sandbox.commands.run('echo $$ > /tmp/late; sleep 600; true', { timeoutMs: 500 })
          await assert.rejects(running, client.TimeoutError)
          // The client's own clock may be ahead of the agent's by a moment.
          await eventually(async () => {
            const left = await sandbox.commands.run('ps -e -o args= | grep -c "[s]leep 600" || true')
            assert.equal(left.stdout, '0\n')
          })
        })

        it('a background command can be joined while it runs and after it has ended', async () => {
          const script = 'echo first; read x < /tmp/gate; echo second; exit 9'
          await sandbox.commands.run('rm -f /tmp/gate; mkfifo /tmp/gate')
          const started = await sandbox.commands.run(script, { background: true, timeoutMs: 0 })
          await eventually(() => assert.equal(started.stdout, 'first\n'))
          await started.disconnect()
          const joined = await sandbox.commands.connect(started.pid)
          await sandbox.commands.run('echo > /tmp/gate')
          const result = await joined.wait().catch((error: current.CommandExitError) => error)
          assert.deepEqual([result.stdout, result.exitCode], ['second\n', 9])
          for (let i = 0; i < 2; i++) {
            const late = await sandbox.commands.connect(started.pid)
            const outcome = await late.wait().catch((error: current.CommandExitError) => error)
            assert.deepEqual([outcome.stdout, outcome.exitCode], ['first\nsecond\n', 9])
          }
          await assert.rejects(sandbox.commands.connect(999_999), client.NotFoundError)
        })

        it('leaves no dead process behind', async () => {
          const { stdout } = await sandbox.commands.run('ps -e -o stat= | grep -c Z || true')
          assert.equal(stdout, '0\n')
        })
      })
    }

    describe('load', () => {
      let sandbox: current.Sandbox
      beforeEach(async () => {
        sandbox = await current.Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      })
      afterEach(() => sandbox?.kill())

      it('50 terminals work at once', async () => {
        const terminals = await Promise.all(
          Array.from({ length: 50 }, () => openTerminal(sandbox, { timeoutMs: 0 })),
        )
        await Promise.all(terminals.map(({ type }, i) => type(`echo number-$((${i}))-\r`)))
        for (const [i, { shown }] of terminals.entries()) {
          await eventually(() => assert.match(shown.text, new RegExp(`\\rnumber-${i}-\\r\\n`)))
        }
        assert.equal(new Set(terminals.map(({ pid }) => pid)).size, 50)
        for (const { handle } of terminals) assert.equal(await handle.kill(), true)
        await eventually(async () => assert.deepEqual(await sandbox.commands.list(), []))
      })

      it(`${megabytes} MB of output pass a slow reader while the agent stays small`, async () => {
        const total = megabytes * 1_000_000
        // The parent of a command is the agent. gVisor knows no peak, and counts all of Node's own file in.
        const memoryKB = async () => {
          const { stdout } = await sandbox.commands.run('cat /proc/$PPID/status')
          const figure = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(stdout)?.[1] ?? 0)
          return { now: figure('VmRSS'), peak: figure('VmHWM') }
        }
        const before = await memoryKB()
        const wire = await flood(warren, sandbox, `head -c ${total} /dev/zero`)
        assert.ok(wire > (total * 4) / 3, `only ${wire} bytes came`)
        const after = await memoryKB()
        assert.ok(after.now - before.now < 50_000, `grew from ${before.now} to ${after.now} kB`)
        assert.ok(after.peak < 100_000, `had ${after.peak} kB at one time`)
      })
    })
  })
}

/** Runs a command over the bare wire and counts what comes, with a pause between any two reads. */
function flood(warren: Warren, sandbox: current.Sandbox, command: string): Promise<number> {
  const message = JSON.stringify({ process: { cmd: '/bin/sh', args: ['-c', command] }, stdin: false })
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  const headers = {
    'content-type': 'application/connect+json',
    [header.accessToken]: (sandbox as unknown as { envdAccessToken: string }).envdAccessToken,
    [header.sandboxID]: sandbox.sandboxId,
    [header.sandboxPort]: String(envdPort),
  }
  return new Promise((resolve, reject) => {
    const outgoing = http.request(
      `${warren.url}/process.Process/Start`,
      { method: 'POST', headers },
      async (response) => {
        let received = 0
        for await (const chunk of response) {
          received += chunk.length
          await nextTurn()
        }
        resolve(received)
      },
    )
    outgoing.on('error', reject)
    outgoing.end(Buffer.concat([head, Buffer.from(message)]))
  })
}
