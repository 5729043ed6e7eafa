/** Pause, resume and auto-pause through the unmodified JavaScript clients, on both runtimes. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import * as current from 'e2b'
import { instanceOf } from '../../src/drivers/host/record/layout.ts'
import { delay } from '../../src/lib/clock.ts'
import { eventually } from '../support/eventually.ts'
import { javaScriptReleases } from '../support/releases.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

// The two releases share the surface used here; their type declarations are not assignable to each other.
const { Sandbox } = current

const detailOf = async (warren: Warren, sandboxID: string) =>
  (await (await warren.api(`/sandboxes/${sandboxID}`)).json()) as Record<string, unknown>

/** A server that counts its answers in memory, and a sleeper that ends by itself. */
const service = `cat > /tmp/service.py <<'END'
import http.server, os
count = 0
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global count
        count += 1
        body = ('%d %s' % (count, os.environ.get('OWN', ''))).encode()
        self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(200); self.send_header('Content-Length', str(len(str(len(body))))); self.end_headers()
        self.wfile.write(str(len(body)).encode())
    def log_message(self, *_): pass
class Server(http.server.HTTPServer):
    request_queue_size = 128
Server(('', 8000), Handler).serve_forever()
END
exec python3 /tmp/service.py`

function visit(warren: Warren, sandboxID: string, options: RequestInit = {}): Promise<Response> {
  const headers = { 'E2b-Sandbox-Id': sandboxID, 'E2b-Sandbox-Port': '8000', ...options.headers }
  return fetch(warren.url, { ...options, headers })
}

async function serving(warren: Warren, options: Parameters<typeof Sandbox.create>[1] = {}) {
  const sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000, ...options })
  const running = await sandbox.commands.run(service, {
    background: true,
    timeoutMs: 0,
    envs: { OWN: 'mine' },
  })
  // A client whose stream breaks off asks whether the sandbox is well, which may wake it.
  await running.disconnect()
  await eventually(async () => assert.equal(await (await visit(warren, sandbox.sandboxId)).text(), '1 mine'))
  return sandbox
}

for (const isolation of isolations) {
  describe(`pausing, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await joinWarren(isolation)
    })
    after(() => warren?.stop())

    for (const [version, client] of javaScriptReleases(isolation, 'differs')) {
      it(`e2b ${version} pauses, gets the confirmation, and connects to the same state`, async () => {
        const options = { ...warren.client, timeoutMs: 3_600_000, envs: { GIVEN: 'at create' } }
        const sandbox = await client.Sandbox.create('base', options)
        const id = sandbox.sandboxId
        const sleeper = await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
        await sandbox.files.write('/home/user/kept', 'kept')
        assert.equal(await sandbox.pause(), true)
        assert.equal(await sandbox.isRunning(), false)
        assert.equal(await sandbox.pause(), false)
        const shown = await detailOf(warren, id)
        assert.deepEqual([shown.state, shown.pauseMode, shown.domain], ['paused', 'full', null])
        assert.equal((await client.Sandbox.getInfo(id, warren.client)).state, 'paused')
        const again = await client.Sandbox.connect(id, { ...warren.client, timeoutMs: 3_600_000 })
        assert.equal(again.sandboxId, id)
        assert.ok((await again.commands.list()).some(({ pid }) => pid === sleeper.pid))
        assert.equal(
          (await again.commands.run(`kill -0 ${sleeper.pid} && echo $GIVEN`)).stdout,
          'at create\n',
        )
        assert.equal(await again.files.read('/home/user/kept'), 'kept')
        // The object from before the pause works on as well: the token is the same.
        assert.equal((await sandbox.commands.run('echo same')).stdout, 'same\n')
        assert.equal((await detailOf(warren, id)).pauseMode, undefined)
        await again.commands.kill(sleeper.pid)
        assert.equal(await again.kill(), true)
        assert.equal(await again.kill(), false)
      })
    }

    it('keeps services, their memory, timers, and the right time', async () => {
      const sandbox = await serving(warren)
      const wait = 'while ! [ -e /tmp/go ]; do sleep 0.2; done; date +%s'
      const waiting = await sandbox.commands.run(wait, { background: true, timeoutMs: 0 })
      const bootID = 'cat /proc/sys/kernel/random/boot_id; hostname; cat /etc/machine-id'
      const before = (await sandbox.commands.run(bootID)).stdout
      await sandbox.pause()
      await delay(4000)
      const resumedAt = Date.now() / 1000
      const again = await Sandbox.connect(sandbox.sandboxId, warren.client)
      assert.equal(await (await visit(warren, sandbox.sandboxId)).text(), '2 mine')
      assert.equal((await again.commands.run(bootID)).stdout, before)
      const joined = await again.commands.connect(waiting.pid)
      await again.commands.run('touch /tmp/go')
      for (const { stdout } of [await joined.wait(), await again.commands.run('date +%s')]) {
        assert.ok(Number(stdout) >= resumedAt - 1 && Number(stdout) <= Date.now() / 1000 + 1, stdout)
      }
      await again.kill()
    })

    it('keeps files only if the client asks for that, and boots anew', async () => {
      const sandbox = await serving(warren)
      const id = sandbox.sandboxId
      const bootID = 'cat /proc/sys/kernel/random/boot_id'
      const before = (await sandbox.commands.run(bootID)).stdout
      await sandbox.files.write('/home/user/kept', 'kept')
      assert.equal(await sandbox.pause({ keepMemory: false }), true)
      assert.equal((await detailOf(warren, id)).pauseMode, 'filesystem')
      const again = await Sandbox.connect(id, warren.client)
      assert.notEqual((await again.commands.run(bootID)).stdout, before)
      assert.equal(await again.files.read('/home/user/kept'), 'kept')
      assert.equal((await visit(warren, id)).status, 502)
      await again.pause()
      const rebooted = await Sandbox.connect(id, { ...warren.client, onResume: 'reboot' })
      assert.equal(await rebooted.files.read('/home/user/kept'), 'kept')
      assert.deepEqual(await rebooted.commands.list(), [])
      await rebooted.kill()
    })

    it('closes open connections at once', async () => {
      const sandbox = await serving(warren)
      const running = await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
      const ended = assert.rejects(running.wait())
      await sandbox.pause()
      await ended
      const refused = await visit(warren, sandbox.sandboxId)
      assert.equal(refused.status, 502)
      assert.match(await refused.text(), /The sandbox was not found/)
      await Sandbox.kill(sandbox.sandboxId, warren.client)
    })

    it('happens at the timeout, with and without memory, unless the client asked for a kill', async () => {
      const short = { ...warren.client, timeoutMs: 2000 }
      const [full, files, killed] = await Promise.all([
        Sandbox.create('base', { ...short, lifecycle: { onTimeout: 'pause' } }),
        Sandbox.create('base', {
          ...short,
          lifecycle: { onTimeout: { action: 'pause', keepMemory: false } },
        }),
        Sandbox.create('base', short),
      ])
      await eventually(async () => {
        assert.equal((await detailOf(warren, full.sandboxId)).pauseMode, 'full')
        assert.equal((await detailOf(warren, files.sandboxId)).pauseMode, 'filesystem')
        assert.equal((await warren.api(`/sandboxes/${killed.sandboxId}`)).status, 404)
      })
      const listed = await Sandbox.list({ ...warren.client, query: { state: ['paused'] } }).nextItems()
      assert.deepEqual(
        new Set(listed.map(({ sandboxId }) => sandboxId)),
        new Set([full.sandboxId, files.sandboxId]),
      )
      await Promise.all([full.kill(), files.kill()])
    })

    it('ends with traffic if auto-resume is set, once for all that wait', async () => {
      const lifecycle = { onTimeout: 'pause', autoResume: true } as const
      const sandbox = await serving(warren, { lifecycle })
      const id = sandbox.sandboxId
      await sandbox.pause()
      const health = await fetch(`${warren.url}/health`, {
        headers: { 'E2b-Sandbox-Id': id, 'E2b-Sandbox-Port': '49983' },
      })
      assert.equal(health.status, 403)
      assert.equal((await detailOf(warren, id)).state, 'paused')
      assert.equal(await sandbox.isRunning(), true, 'a question with the token wakes it')
      await sandbox.pause()
      const body = 'x'.repeat(3_000_000)
      const answers = await Promise.all([
        ...Array.from({ length: 20 }, async () => (await visit(warren, id)).text()),
        (async () => (await visit(warren, id, { method: 'POST', body })).text())(),
      ])
      assert.equal(answers.pop(), '3000000')
      const counts = answers.map((answer) => Number(answer.split(' ')[0])).sort((a, b) => a - b)
      assert.deepEqual(
        counts,
        Array.from({ length: 20 }, (_, at) => at + 2),
      )
      await sandbox.pause()
      assert.equal((await sandbox.commands.run('echo awake')).stdout, 'awake\n')
      await sandbox.pause()
      const { sandboxId, ...rest } = sandbox as unknown as Record<string, string>
      assert.ok(rest)
      const wrong = await fetch(`${warren.url}/files?path=/etc/passwd`, {
        headers: { 'E2b-Sandbox-Id': sandboxId!, 'E2b-Sandbox-Port': '49983', 'X-Access-Token': 'wrong' },
      })
      assert.equal(wrong.status, 403)
      assert.equal((await detailOf(warren, id)).state, 'paused')
      await sandbox.kill()
    })

    it('leaves a sandbox without internet closed, whatever its new address', async () => {
      const table = ['list', 'set', 'inet', `warren_${instanceOf(warren.dataFolder)}`, 'denied']
      const closed = () => execFileSync('nft', table, { encoding: 'utf8' })
      const sandbox = await Sandbox.create('base', { ...warren.client, allowInternetAccess: false })
      await sandbox.pause()
      const again = await Sandbox.connect(sandbox.sandboxId, warren.client)
      const [fork] = (await again.fork()) as [current.Sandbox]
      for (const one of [again, fork]) {
        const address = (await one.commands.run('hostname -I')).stdout.trim()
        assert.match(closed(), new RegExp(`\\b${address.replaceAll('.', '\\.')}\\b`))
        await one.kill()
        assert.doesNotMatch(closed(), new RegExp(`\\b${address.replaceAll('.', '\\.')}\\b`))
      }
    })

    it('rejects every wrong call with a reason', async () => {
      const sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      const post = async (verb: string, body?: unknown) => {
        const answer = await warren.api(`/sandboxes/${sandbox.sandboxId}/${verb}`, { method: 'POST', body })
        return [answer.status, ((await answer.json()) as { message: string }).message] as const
      }
      assert.deepEqual(await post('resume', { timeout: 10 }), [
        409,
        `Sandbox ${sandbox.sandboxId} is already running`,
      ])
      for (const body of [{ memory: 'x' }, { memory: 1 }, [], 'x']) {
        assert.equal((await post('pause', body))[0], 400, JSON.stringify(body))
      }
      for (const body of [{ count: 0 }, { count: 101 }, { count: 1.5 }, { timeout: -1 }, { timeout: 0 }]) {
        assert.equal((await post('fork', body))[0], 400, JSON.stringify(body))
      }
      for (const body of [{ name: '' }, { name: 'a b' }, { name: 'other/x' }, { name: 'x:' }, [], null]) {
        assert.equal((await post('snapshots', body))[0], 400, JSON.stringify(body))
      }
      await sandbox.pause()
      assert.deepEqual(await post('pause', {}), [
        409,
        `Error pausing sandbox - sandbox '${sandbox.sandboxId}' is already paused`,
      ])
      assert.equal((await post('timeout', { timeout: 10 }))[0], 404)
      assert.equal((await post('refreshes', {}))[0], 404)
      assert.equal((await post('snapshots', {}))[0], 404)
      assert.match((await post('fork', {}))[1], /is paused and cannot be forked; resume it first/)
      assert.equal((await post('connect', { timeout: 10_000_000 }))[0], 400)
      await sandbox.kill()
      for (const verb of ['pause', 'resume', 'fork']) assert.equal((await post(verb, {}))[0], 404)
    })
  })
}
