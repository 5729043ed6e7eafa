/** What root inside tries in order to answer in place of the agent, on both isolations (I1). */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { attackAgents, type Target } from '../support/agent-target.ts'
import { isolations, joinWarren } from '../support/warren.ts'

/** Prints what each line of it came to, as JSON. */
const prelude = `
import ctypes, errno, json, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def command_of(pid):
    try: return open(f'/proc/{pid}/cmdline').read()
    except OSError: return ''
agent = next(int(pid) for pid in os.listdir('/proc') if pid.isdigit() and pid != '1' and 'boot.cjs' in command_of(pid))
def failure_of(work):
    try: work()
    except OSError as error: return errno.errorcode[error.errno]
    return 'done'
def call(name, *values):
    if getattr(libc, name)(*values) < 0: raise OSError(ctypes.get_errno(), name)
`

async function python(target: Target, lines: string, user: 'user' | 'root'): Promise<unknown> {
  await target.write('/tmp/attack.py', prelude + lines)
  return JSON.parse(await target.shell('python3 /tmp/attack.py', user))
}

function takeoverTests(mine: () => Target): void {
  describe('root inside', () => {
    it('opens no debugger by a signal, and the agent goes on', async () => {
      const pid = await python(mine(), 'print(json.dumps(agent))', 'root')
      await mine().shell(`kill -USR1 ${pid}; sleep 0.5`, 'root')
      const listening = `
addresses = [line.split()[1] for name in ('tcp', 'tcp6') for line in open(f'/proc/net/{name}').readlines()[1:]]
print(json.dumps([agent, any(address.endswith(':240D') for address in addresses)]))`
      assert.deepEqual(await python(mine(), listening, 'root'), [pid, false])
      assert.match(await mine().shell(`tr '\\0' ' ' < /proc/${pid}/cmdline`), / --disable-sigusr1 /)
    })

    it('traces neither the agent nor init, and reads neither memory nor environment', async () => {
      const tries = `
attach, seize = 16, 0x4206
tries = [failure_of(lambda: call('ptrace', how, pid, 0, 0)) for pid in (agent, 1) for how in (attach, seize)]
tries += [failure_of(lambda: open(f'/proc/{agent}/{name}', 'rb').read()) for name in ('mem', 'maps', 'environ')]
print(json.dumps(tries))`
      const found = await python(mine(), tries, 'root')
      assert.deepEqual(found, [...Array(4).fill('EPERM'), ...Array(3).fill('EACCES')])
    })

    it('traces its own programs', async () => {
      const tries = `
import subprocess, time
child = subprocess.Popen(['sleep', '60'])
time.sleep(0.2)
print(json.dumps(failure_of(lambda: call('ptrace', 16, child.pid, 0, 0))))`
      assert.equal(await python(mine(), tries, 'root'), 'done')
    })

    for (const user of ['root', 'user'] as const) {
      it(`binds the agent's port on no address, as ${user}`, async () => {
        const tries = `
probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
probe.connect(('192.0.2.1', 9))
found = {}
for host in ('0.0.0.0', '127.0.0.1', '127.0.0.2', probe.getsockname()[0], '::', '::ffff:127.0.0.1'):
    for options in ((), (2,), (15,), (2, 15)):
        listener = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET)
        for option in options: listener.setsockopt(socket.SOL_SOCKET, option, 1)
        def take():
            listener.bind((host, 49983))
            listener.listen()
        failure = failure_of(take)
        listener.close()
        if failure != 'EADDRINUSE': found[f'{host} {options}'] = failure
print(json.dumps(found))`
        assert.deepEqual(await python(mine(), tries, user), {})
      })
    }
  })
}

for (const isolation of isolations) {
  attackAgents(`the agent, to be replaced, ${isolation}`, () => joinWarren(isolation), takeoverTests)
}
