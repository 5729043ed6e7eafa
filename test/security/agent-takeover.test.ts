/** What root inside tries in order to answer in place of the agent, on both isolations (I1, J4). */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { attackAgents, Target } from '../support/agent-target.ts'
import { eventually } from '../support/eventually.ts'
import { markingLibrary } from '../support/marking-library.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

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
    it('opens no debugger by a signal, and the agent keeps working', async () => {
      const pid = await python(mine(), 'print(json.dumps(agent))', 'root')
      // A program without the agent's defence gets the signal after it: when its debugger listens, the agent's would too.
      const other = `console.log('ready'); setInterval(() => {}, 1000)`
      const otherPid = await mine().shell(
        `node --inspect-port=9230 -e "${other}" >/tmp/other 2>&1 </dev/null & other=$!
while ! grep -q ready /tmp/other; do sleep 0.1; done
kill -USR1 ${pid}; kill -USR1 $other
while ! grep -q 'Debugger listening' /tmp/other; do sleep 0.1; done; echo $other`,
        'root',
      )
      const listening = `
addresses = [line.split()[1] for name in ('tcp', 'tcp6') for line in open(f'/proc/net/{name}').readlines()[1:]]
print(json.dumps([agent, *(any(address.endswith(port) for address in addresses) for port in (':240E', ':240D'))]))`
      assert.deepEqual(await python(mine(), listening, 'root'), [pid, true, false])
      await mine().shell(`kill ${otherPid}`, 'root')
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

/** Names of libraries to load, in each file in which programs look for such: a loader, OpenSSL, name services, iconv. */
const libraryFolder = '/usr/lib/x86_64-linux-gnu'
const plantedFiles = (library: (name: string) => string): Record<string, string> => ({
  '/etc/ld.so.preload': `${library('preload')}\n`,
  '/etc/ssl/openssl.cnf': `nodejs_conf = a
openssl_conf = a
[a]
providers = b
[b]
marking = c
[c]
module = ${library('provider')}
activate = 1
`,
  '/etc/nsswitch.conf': 'passwd: marking files\ngroup: marking files\nhosts: marking files dns\n',
  [`${libraryFolder}/gconv/gconv-modules`]: `module UTF-16// INTERNAL ${library('gconv')} 1\n`,
  '/etc/ld.so.conf': '/opt/planted\n',
  '/etc/ld.so.cache': 'glibc-ld.so.cache1.1 and nothing that fits',
  '/etc/localtime': 'TZif2 and nothing that fits',
  '/etc/resolv.conf': 'options \\\n'.repeat(1000),
  '/etc/hosts': '192.0.2.1 localhost 127.0.0.1\n',
  '/etc/environment': `LD_PRELOAD=${library('environment')}\nNODE_OPTIONS=--require=/opt/planted/no.js\n`,
  '/package.json': '{"type":"module","imports":{"#x":"./x.js"}}',
  '/node.config.json': '{"nodeOptions":{"require":["/opt/planted/no.js"]}}',
})

function plantedFileTests(isolation: (typeof isolations)[number]): void {
  describe(`files of the image before the agent starts, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await joinWarren(isolation)
    })
    after(() => warren?.stop())

    async function plant(target: Target): Promise<void> {
      const library = (name: string) => `/opt/planted/${name}.so`
      const names = ['preload', 'provider', 'gconv', 'environment']
      for (const name of names)
        await target.write(library(name), markingLibrary(`/marked-by-${name}`), 'root')
      const service = markingLibrary('/marked-by-nsswitch')
      await target.write(`${libraryFolder}/libnss_marking.so.2`, service, 'root')
      await target.shell(
        'rm -f /etc/localtime; mkdir -p /opt/planted/bin; cp -a /etc /opt/planted/etc',
        'root',
      )
      // The preload last: programs that start after it load it as well.
      for (const [path, text] of Object.entries(plantedFiles(library)).reverse()) {
        assert.equal((await target.write(path, text, 'root')).status, 200, path)
      }
    }

    it('do not make the agent load anything, and it answers as before', async () => {
      const sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 600_000 })
      const { sandboxId } = sandbox
      await plant(new Target(sandbox, warren.url))
      const links = 'mv /.warren /x; rm -rf /.warren; ln -sfn /opt/planted /.warren; ls /.warren/node'
      const { stdout } = await sandbox.commands.run(`{ ${links}; } 2>/dev/null`, { user: 'root' })
      assert.equal(stdout.trim(), '/.warren/node')
      const paused = await warren.api(`/sandboxes/${sandboxId}/pause`, { body: { memory: false } })
      assert.equal(paused.status, 204)
      const again = new Target(await Sandbox.connect(sandboxId, warren.client), warren.url)
      const listed = await again.call('ListDir', { path: '/', depth: 1 })
      assert.equal(listed.status, 200)
      const { entries } = JSON.parse(listed.text) as { entries: { name: string }[] }
      const names = entries.map(({ name }) => name)
      assert.ok(names.includes('etc'))
      assert.deepEqual(
        names.filter((name) => name.startsWith('marked-by')),
        [],
      )
      assert.equal(await again.shell('echo "$(id -un) $(date +%Z)"'), 'user UTC')
      // A program of the image that becomes a child of pid 1 does load it: so the library works.
      await again.shell("setsid sh -c 'sleep 1; exec /bin/true' > /dev/null 2>&1 < /dev/null &", 'root')
      await eventually(async () =>
        assert.equal((await again.call('Stat', { path: '/marked-by-preload' })).status, 200),
      )
      await again.sandbox.kill()
    })
  })
}

for (const isolation of isolations) {
  plantedFileTests(isolation)
  attackAgents(`the agent, to be replaced, ${isolation}`, () => joinWarren(isolation), takeoverTests)
}
