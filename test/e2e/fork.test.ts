/** Forks and snapshots through the unmodified JavaScript clients, on both runtimes. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import * as current from 'e2b'
import { javaScriptReleases } from '../support/releases.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

// The two releases share the surface used here; their type declarations are not assignable to each other.
const { Sandbox } = current

/** What makes a sandbox one of its own, each on a line. */
const identity = `hostname; cat /etc/machine-id; cat /proc/sys/kernel/random/boot_id; echo $E2B_SANDBOX_ID; cat /run/e2b/.E2B_SANDBOX_ID; echo;
hostname -I 2>/dev/null || ip -4 -o addr show scope global | awk '{print $4}'; head -c 16 /dev/urandom | md5sum;
python3 -c 'import uuid; print(uuid.uuid4())'`

async function all(paginator: ReturnType<typeof Sandbox.listSnapshots>): Promise<string[]> {
  const ids: string[] = []
  while (paginator.hasNext) ids.push(...(await paginator.nextItems()).map(({ snapshotId }) => snapshotId))
  return ids
}

for (const isolation of isolations) {
  const memory = isolation === 'gvisor'

  describe(`forks and snapshots, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await joinWarren(isolation)
    })
    after(() => warren?.stop())

    for (const [version, client] of javaScriptReleases(isolation, 'same')) {
      it(`e2b ${version} forks ten, all different and all correct`, async () => {
        const options = { ...warren.client, timeoutMs: 3_600_000, envs: { GIVEN: 'at create' } }
        const origin = await client.Sandbox.create('base', { ...options, metadata: { of: 'origin' } })
        await origin.files.write('/home/user/kept', 'kept')
        const hashing = `python3 -c "import hashlib, os, signal
held = os.urandom(20_000_000)
def write(name):
    open('/tmp/new', 'w').write(hashlib.md5(held).hexdigest()); os.rename('/tmp/new', name)
signal.signal(signal.SIGUSR1, lambda *_: write('/tmp/sum-now'))
open('/tmp/holder', 'w').write(str(os.getpid()))
write('/tmp/sum')
while True: signal.pause()"`
        const inherited = await origin.commands.run(hashing, { background: true, timeoutMs: 0 })
        await origin.commands.run('while ! [ -s /tmp/sum ]; do sleep 0.1; done; echo origin > /tmp/who')
        const results = await origin.fork({ count: version === '2.51' ? 10 : 2, timeoutMs: 3_600_000 })
        const forks = results.map((result) => (result instanceof Error ? assert.fail(result) : result))
        const seen = await Promise.all(
          [origin, ...forks].map(async (sandbox) => {
            await sandbox.commands.run(`echo ${sandbox.sandboxId} > /home/user/own`)
            return (await sandbox.commands.run(identity)).stdout.trim().split('\n')
          }),
        )
        for (const [at, sandbox] of [origin, ...forks].entries()) {
          const [host, , , given, file] = seen[at]!
          assert.deepEqual([host, given, file], Array(3).fill(sandbox.sandboxId))
          assert.equal(await sandbox.files.read('/home/user/own'), `${sandbox.sandboxId}\n`)
          assert.equal(await sandbox.files.read('/home/user/kept'), 'kept')
          assert.equal(
            (await sandbox.commands.run('cat /tmp/who; echo $GIVEN')).stdout,
            'origin\nat create\n',
          )
        }
        for (const column of seen[0]!.keys()) {
          assert.equal(new Set(seen.map((line) => line[column])).size, seen.length, `line ${column}: ${seen}`)
        }
        for (const fork of forks) {
          const isInherited = (await fork.commands.list()).some(({ pid }) => pid === inherited.pid)
          assert.equal(isInherited, memory)
          if (memory) {
            const askForSum = 'kill -USR1 $(cat /tmp/holder); while ! [ -s /tmp/sum-now ]; do sleep 0.1; done'
            await fork.commands.run(askForSum)
            assert.equal(await fork.files.read('/tmp/sum-now'), await fork.files.read('/tmp/sum'))
          }
          assert.deepEqual((await fork.getInfo()).metadata, { of: 'origin' })
        }
        const log = await (await warren.api(`/v2/sandboxes/${forks[0]!.sandboxId}/logs`)).text()
        assert.doesNotMatch(log, /sum \]; do sleep 0.1; done; echo origin/)
        await Promise.all([origin, ...forks].map((sandbox) => sandbox.kill()))
      })
    }

    it('a token of the original opens no fork, nor the other way round', async () => {
      const origin = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      const [fork] = (await origin.fork()) as [current.Sandbox]
      const tokenOf = async (sandboxId: string) =>
        ((await (await warren.api(`/sandboxes/${sandboxId}`)).json()) as { envdAccessToken: string })
          .envdAccessToken
      const [one, other] = [await tokenOf(origin.sandboxId), await tokenOf(fork.sandboxId)]
      const read = async (sandboxId: string, token: string) => {
        const headers = { 'E2b-Sandbox-Id': sandboxId, 'E2b-Sandbox-Port': '49983', 'X-Access-Token': token }
        return (await fetch(`${warren.url}/files?path=/etc/passwd&username=root`, { headers })).status
      }
      assert.deepEqual([await read(origin.sandboxId, one), await read(fork.sandboxId, other)], [200, 200])
      assert.deepEqual([await read(origin.sandboxId, other), await read(fork.sandboxId, one)], [401, 401])
      await Promise.all([origin.kill(), fork.kill()])
    })

    for (const [version, client] of javaScriptReleases(isolation, 'same')) {
      it(`e2b ${version} takes snapshots, starts from them, lists and deletes them`, async () => {
        const origin = await client.Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
        await origin.files.write('/home/user/kept', 'first')
        const sleeper = await origin.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
        const name = `snap-${version.replace('.', '-')}`
        const first = await origin.createSnapshot({ name: `${name}:v1` })
        assert.match(first.snapshotId, new RegExp(`^[a-z0-9-]+/${name}:v1$`))
        assert.deepEqual(first.names, [first.snapshotId.replace(':v1', '')])
        await origin.files.write('/home/user/kept', 'second')
        const second = await origin.createSnapshot()
        assert.equal((await origin.commands.run('echo on')).stdout, 'on\n')
        assert.deepEqual(await all(origin.listSnapshots()), [second.snapshotId, first.snapshotId])
        assert.deepEqual(await all(client.Sandbox.listSnapshots({ ...warren.client, limit: 1 })), [
          second.snapshotId,
          first.snapshotId,
        ])
        await origin.kill()
        for (const [template, text] of [
          [first.snapshotId, 'first'],
          [name, undefined],
          [`${name}:v1`, 'first'],
          [second.snapshotId, 'second'],
        ] as const) {
          const create = client.Sandbox.create(template, {
            ...warren.client,
            timeoutMs: 60_000,
            envs: { OWN: template },
          })
          if (text === undefined) {
            await assert.rejects(create, /no finished build/)
            continue
          }
          const sandbox = await create
          assert.equal(await sandbox.files.read('/home/user/kept'), text)
          assert.equal((await sandbox.commands.run('echo $OWN')).stdout, `${template}\n`)
          assert.equal(
            (await sandbox.commands.list()).some(({ pid }) => pid === sleeper.pid),
            memory,
          )
          await sandbox.kill()
        }
        for (const { snapshotId } of [first, second]) {
          assert.equal(await client.Sandbox.deleteSnapshot(snapshotId, warren.client), true)
          assert.equal(await client.Sandbox.deleteSnapshot(snapshotId, warren.client), false)
        }
        assert.deepEqual(await all(client.Sandbox.listSnapshots(warren.client)), [])
        await assert.rejects(client.Sandbox.create(first.snapshotId, warren.client), /not found/)
      })
    }
  })
}
