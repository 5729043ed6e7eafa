/** Memory and files survive many pauses unchanged, and an agent that hangs is reported. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { countOf } from '../support/count-of.ts'
import { eventually } from '../support/eventually.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

const cycles = countOf({ short: 3, long: 20 })

/** Changes patterns in memory and files all the time, and holds each against what it must be. */
const worker = `cat > /tmp/worker.py <<'END'
import hashlib, os
blocks = [bytearray(os.urandom(1 << 20)) for _ in range(20)]
sums = [hashlib.md5(block).hexdigest() for block in blocks]
rounds = 0
def wrong():
    for at, block in enumerate(blocks):
        if hashlib.md5(block).hexdigest() != sums[at]: return 'memory %d differs' % at
        path = '/home/user/block%d' % at
        if os.path.exists(path) and hashlib.md5(open(path, 'rb').read()).hexdigest() != sums[at]: return 'file %d differs' % at
while not os.path.exists('/tmp/stop'):
    at = rounds % 20
    blocks[at][:] = os.urandom(1 << 20); sums[at] = hashlib.md5(blocks[at]).hexdigest()
    with open('/home/user/new', 'wb') as file: file.write(blocks[at])
    os.rename('/home/user/new', '/home/user/block%d' % at)
    rounds += 1
    if rounds % 25 == 0 and wrong(): break
print(wrong() or 'whole after %d rounds' % rounds)
END
exec python3 /tmp/worker.py`

const stateOf = async (warren: Warren, sandboxID: string) =>
  ((await (await warren.api(`/sandboxes/${sandboxID}`)).json()) as { state: string }).state

for (const isolation of isolations) {
  describe(`integrity, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await joinWarren(isolation)
    })
    after(() => warren?.stop())

    it(`of memory and files over ${cycles} pauses under load, requested and automatic`, async () => {
      const options = { ...warren.client, timeoutMs: 3_600_000, lifecycle: { onTimeout: 'pause' } as const }
      let sandbox = await Sandbox.create('base', options)
      const { pid } = await sandbox.commands.run(worker, { background: true, timeoutMs: 0 })
      for (let cycle = 0; cycle < cycles; cycle++) {
        if (cycle % 4 === 3) {
          await sandbox.setTimeout(0)
          await eventually(async () => assert.equal(await stateOf(warren, sandbox.sandboxId), 'paused'))
        } else await sandbox.pause()
        sandbox = await Sandbox.connect(sandbox.sandboxId, { ...warren.client, timeoutMs: 3_600_000 })
      }
      const joined = await sandbox.commands.connect(pid, { timeoutMs: 0 })
      await sandbox.files.write('/tmp/stop', '')
      assert.match((await joined.wait()).stdout, /^whole after \d+ rounds\n$/)
      await sandbox.kill()
    })

    it('of the answer if the agent hangs: rejected if requested so, otherwise marked and rebooted', async () => {
      const sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      const id = sandbox.sandboxId
      await sandbox.files.write('/home/user/kept', 'kept')
      const post = async (verb: string, body: object) => {
        const answer = await warren.api(`/sandboxes/${id}/${verb}`, { body })
        const { error_code: slug } = (await answer.json().catch(() => ({}))) as { error_code?: string }
        return [answer.status, slug]
      }
      // Pid 1 is the init that runs it.
      const stop = 'sleep 0.3; kill -STOP $(pgrep -f /.warren/boot.cjs | grep -vx 1 | head -1)'
      await sandbox.files.write('/tmp/stop.sh', stop, { user: 'root' })
      await sandbox.commands.run('setsid sh /tmp/stop.sh >/dev/null 2>&1 &', { user: 'root' })
      await eventually(async () => {
        const headers = { 'E2b-Sandbox-Id': id, 'E2b-Sandbox-Port': '49983' }
        const asked = fetch(`${warren.url}/health`, { headers, signal: AbortSignal.timeout(500) })
        await assert.rejects(asked)
      })
      assert.deepEqual(await post('pause', { requireHealthyGuest: true }), [503, undefined])
      assert.equal(await stateOf(warren, id), 'running')
      assert.deepEqual(await post('pause', {}), [204, undefined])
      const detail = (await (await warren.api(`/sandboxes/${id}`)).json()) as Record<string, unknown>
      assert.deepEqual([detail.pauseMode, detail.envdUnresponsiveAtPause], ['full', true])
      assert.deepEqual(await post('connect', { timeout: 300 }), [
        409,
        'sandbox_snapshot_guest_agent_unresponsive',
      ])
      const again = await Sandbox.connect(id, { ...warren.client, onResume: 'reboot' })
      assert.equal(await again.files.read('/home/user/kept'), 'kept')
      await again.kill()
    })
  })
}
