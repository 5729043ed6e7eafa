/** What may leave a sandbox, through the unmodified clients: a namespace of ours plays the internet. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { ALL_TRAFFIC, type CommandExitError, Sandbox } from 'e2b'
import { instanceOf } from '../../src/drivers/host/record/layout.ts'
import { elsewhere, internet, Outside, port, talkativePort } from '../../src/drivers/oci/suite/outside.ts'
import { runPython } from '../support/python.ts'
import { pythonReleases } from '../support/releases.ts'
import { isolations, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

/** The program's exit code tells: 0 there was an answer, else there was none, and at once. */
const reach = (host: string) => `timeout 30 bash -c 'exec 3<>/dev/tcp/${host}/${port} && grep -q from <&3'`

for (const isolation of isolations) {
  describe(`the network of a sandbox, ${isolation}`, () => {
    let warren: Warren
    let outside: Outside
    before(async () => {
      warren = await startWarren(isolation, { settings: noWarmPool })
      outside = new Outside(instanceOf(warren.dataFolder))
      await outside.open()
    })
    after(async () => {
      await outside?.close()
      await warren?.stop()
    })

    const create = (options: Parameters<typeof Sandbox.create>[1] = {}) =>
      Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000, ...options })

    /** Which of the two hosts outside answer. */
    async function reached(sandbox: Sandbox): Promise<string[]> {
      const both = [internet, elsewhere]
      const codes = await Promise.all(
        both.map((host) => sandbox.commands.run(`${reach(host)}; echo $?`).then(({ stdout }) => stdout)),
      )
      return both.filter((_, at) => /0\n$/.test(codes[at]!))
    }
    const detail = async (sandboxID: string) =>
      (await (await warren.api(`/sandboxes/${sandboxID}`)).json()) as Record<string, unknown>

    it('is open, closed, or open for some addresses, as its create says', async () => {
      const open = await create()
      assert.deepEqual(await reached(open), [internet, elsewhere])
      const closed = await create({ allowInternetAccess: false })
      assert.deepEqual(await reached(closed), [])
      assert.equal((await closed.commands.run('echo inside')).stdout, 'inside\n')
      // A lookup that nobody answers would take two minutes.
      const lookup = 'RES_OPTIONS="timeout:30 attempts:4" timeout 25 getent hosts name.test; echo $?'
      assert.equal((await closed.commands.run(lookup)).stdout, '2\n')
      const some = await create({ network: { allowOut: [internet], denyOut: [ALL_TRAFFIC] } })
      assert.deepEqual(await reached(some), [internet])
      const rest = await create({ network: { denyOut: ['198.51.100.0/28'] } })
      assert.deepEqual(await reached(rest), [elsewhere])
      const both = await create({ allowInternetAccess: false, network: { allowOut: ['198.51.100.128/25'] } })
      assert.deepEqual(await reached(both), [elsewhere])
      const shown = await detail(some.sandboxId)
      assert.deepEqual(shown.network, { allowOut: [internet], denyOut: [ALL_TRAFFIC] })
      await Promise.all([open, closed, some, rest, both].map((sandbox) => sandbox.kill()))
    })

    it('changes while it runs, for open connections too, and omitted fields are cleared', async () => {
      const sandbox = await create()
      const talk = await sandbox.commands.run(
        `python3 -c "import socket
peer = socket.create_connection(('${internet}', ${talkativePort})); peer.settimeout(60)
print('begun', flush=True)
while peer.recv(100): pass"`,
        { background: true, timeoutMs: 0 },
      )
      while (!talk.stdout.includes('begun')) await new Promise((resolve) => setTimeout(resolve, 50))
      await sandbox.updateNetwork({ denyOut: [internet] })
      await assert.rejects(talk.wait(), ({ stderr }: CommandExitError) => /ConnectionResetError/.test(stderr))
      assert.deepEqual(await reached(sandbox), [elsewhere])
      await sandbox.updateNetwork({ allowInternetAccess: false })
      assert.deepEqual(await reached(sandbox), [])
      assert.equal((await detail(sandbox.sandboxId)).allowInternetAccess, false)
      await sandbox.updateNetwork({})
      assert.deepEqual(await reached(sandbox), [internet, elsewhere])
      const shown = await detail(sandbox.sandboxId)
      assert.deepEqual([shown.network, shown.allowInternetAccess], [undefined, null])
      await sandbox.kill()
    })

    it('is kept over a pause, a fork, and a crash of Warren', async () => {
      const sandbox = await create()
      await sandbox.updateNetwork({ allowOut: [internet], denyOut: [ALL_TRAFFIC] })
      const [fork] = (await sandbox.fork()) as [Sandbox]
      assert.deepEqual(await reached(fork), [internet])
      await fork.kill()
      await sandbox.pause()
      const put = { method: 'PUT', body: {} }
      assert.equal((await warren.api(`/sandboxes/${sandbox.sandboxId}/network`, put)).status, 404)
      const again = await Sandbox.connect(sandbox.sandboxId, warren.client)
      assert.deepEqual(await reached(again), [internet])
      await warren.crash()
      warren = await startWarren(isolation, { keepData: true, settings: noWarmPool })
      assert.deepEqual(await reached(again), [internet])
      await again.updateNetwork({ denyOut: [internet] })
      assert.deepEqual(await reached(again), [elsewhere])
      await again.kill()
    })

    it('never leads to internal addresses, whatever is allowed, in any spelling', async () => {
      const allowOut = ['0.0.0.0/0', '127.0.0.0/8', '10.0.0.0/8', '169.254.169.254', '100.100.100.200']
      const sandbox = await create({ network: { allowOut } })
      const apiPort = new URL(warren.url).port
      const spellings = ['127.1', '2130706433', '0x7f.1', '017700000001', '0', '0.0.0.0', '0.0.0.1']
      const six = ['[::1]', '[::]', '[::ffff:127.0.0.1]', '[::ffff:a00:1]', '[fd00:ec2::254]']
      const here = ['127.0.0.1', 'localhost', ...spellings, ...six, ...outsideAddresses()]
      const there = ['169.254.169.254', '100.100.100.200', '10.231.0.7', '192.168.231.7', '198.18.231.7']
      const targets = [
        ...here.map((host) => `${host}:${apiPort}/health`),
        ...there.flatMap((host) => [`${host}:80`, `${host}:${port}`]),
      ]
      // What curl says when there is no connection at all; whatever else comes of it, somebody was reached.
      const none = '6|7|28'
      const script = targets.map(
        (target) =>
          `(curl -g -so /dev/null --http0.9 -m 30 'http://${target}'; case $? in ${none}) ;; *) echo '${target}';; esac) &`,
      )
      const { stdout } = await sandbox.commands.run(`${script.join('\n')}\nwait`, { timeoutMs: 300_000 })
      assert.equal(stdout, '')
      const check = `curl -so /dev/null --http0.9 -m 30 http://${internet}:${port}; case $? in ${none}) echo none;; esac`
      assert.equal((await sandbox.commands.run(check)).stdout, '')
      await sandbox.kill()
    })

    for (const [version, age] of pythonReleases(isolation, 'same')) {
      it(`of Python's e2b ${version} is as requested, and changes as requested`, () => {
        runPython(warren, version, 'network.py', age, internet, elsewhere, String(port))
      })
    }
  })
}

/** This machine's own, towards the outside. */
const outsideAddresses = () => ['203.0.113.1', '203.0.113.2']
