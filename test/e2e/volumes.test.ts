/** Volumes through the unmodified JavaScript and Python clients, in real sandboxes, over the lives of both. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Sandbox, Volume, VolumeError, VolumeNotFoundError, VolumePathNotFoundError } from 'e2b'
import { eventually } from '../support/eventually.ts'
import { runPython } from '../support/python.ts'
import { pythonReleases } from '../support/releases.ts'
import { isolations, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

const settings = { ...noWarmPool, WARREN_VOLUME_MB: '64', WARREN_VOLUMES_PER_TEAM: '6' }
const mebibyte = 1024 * 1024

for (const isolation of isolations) {
  describe(`volumes, ${isolation}`, () => {
    let warren: Warren
    let given: string | undefined
    before(async () => {
      warren = await startWarren(isolation, { settings })
      given = process.env.E2B_VOLUME_API_URL
      process.env.E2B_VOLUME_API_URL = warren.environment.E2B_VOLUME_API_URL
    })
    after(async () => {
      if (given === undefined) delete process.env.E2B_VOLUME_API_URL
      else process.env.E2B_VOLUME_API_URL = given
      await warren?.stop()
    })

    const create = (volumeMounts: Record<string, Volume | string>) =>
      Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000, volumeMounts })
    const run = async (sandbox: Sandbox, command: string, user = 'user') =>
      (await sandbox.commands.run(command, { user })).stdout.trim()

    it('supports everything in Volume of the JavaScript client', async () => {
      const volume = await Volume.create('whole', warren.client)
      const same = await Volume.connect(volume.volumeId, warren.client)
      assert.equal(same.name, 'whole')
      assert.deepEqual(await Volume.list(warren.client), [{ volumeId: volume.volumeId, name: 'whole' }])
      await assert.rejects(Volume.create('whole', warren.client), /already exists/)
      await assert.rejects(Volume.create('no/name', warren.client), VolumeError)

      await volume.makeDir('/a/b', { force: true })
      await assert.rejects(volume.makeDir('/x/y'), VolumePathNotFoundError)
      const written = await volume.writeFile('/a/text', 'grüße')
      assert.deepEqual([written.uid, written.gid, written.mode, written.size], [1000, 1000, 0o644, 7])
      await assert.rejects(volume.writeFile('/a/text', 'again'), /409/)
      const stream = new Blob([Buffer.alloc(5 * mebibyte, 'x')]).stream()
      await volume.writeFile('/a/text', stream, { force: true, uid: 7, gid: 8, mode: 0o600 })
      const info = await same.getInfo('a/text')
      assert.deepEqual([info.uid, info.gid, info.mode, info.size], [7, 8, 0o600, 5 * mebibyte])
      assert.equal((await volume.readFile('/a/text')).length, 5 * mebibyte)
      let streamed = 0
      for await (const piece of await volume.readFile('/a/text', { format: 'stream' }))
        streamed += piece.length
      assert.equal(streamed, 5 * mebibyte)
      const tooLarge = new Blob([Buffer.alloc(80 * mebibyte)]).stream()
      await assert.rejects(volume.writeFile('/a/large', tooLarge), /507/)
      await assert.rejects(volume.getInfo('/a/large'), VolumePathNotFoundError)
      const changed = await volume.updateMetadata('/a/text', { mode: 0o640, gid: 9 })
      assert.deepEqual([changed.uid, changed.gid, changed.mode], [7, 9, 0o640])
      assert.deepEqual(
        (await volume.list('/')).map(({ path, type }) => [path, type]),
        [['/a', 'directory']],
      )
      const below = (await volume.list('/', { depth: 2 })).map(({ path }) => path).sort()
      assert.deepEqual(below, ['/a', '/a/b', '/a/text'])
      await volume.remove('/a')
      assert.equal(await volume.exists('/a'), false)
      await assert.rejects(volume.readFile('/a/text'), VolumePathNotFoundError)
      assert.equal(await Volume.destroy(volume.volumeId, warren.client), true)
      assert.equal(await Volume.destroy(volume.volumeId, warren.client), false)
      await assert.rejects(Volume.getInfo(volume.volumeId, warren.client), VolumeNotFoundError)
    })

    // What volumes hold is asked of Warren, not of a sandbox.
    for (const [version] of isolation === 'container' ? pythonReleases(isolation, 'same') : []) {
      it(`supports everything in Volume of the Python client ${version}`, () =>
        runPython(warren, version, 'volumes_test.py'))
    }

    it('sandboxes that share a volume see the same files, with the owners that each wrote', async () => {
      const [shared, other] = await Promise.all(
        ['shared', 'other'].map((name) => Volume.create(name, warren.client)),
      )
      const [one, two] = await Promise.all([
        create({ '/mnt/data': shared!, '/home/user/more': other! }),
        create({ '/data': 'shared' }),
      ])
      const listed = await Sandbox.getInfo(one.sandboxId, warren.client)
      assert.deepEqual(listed.volumeMounts, [
        { name: 'shared', path: '/mnt/data' },
        { name: 'other', path: '/home/user/more' },
      ])
      await one.files.write('/mnt/data/from-one', 'one')
      await run(one, 'mkdir /mnt/data/own && echo root > /mnt/data/own/root', 'root')
      await run(one, 'chown 33:44 /mnt/data/own/root', 'root')
      assert.equal(await two.files.read('/data/from-one'), 'one')
      assert.equal(
        await run(two, 'stat -c %u:%g /data/from-one /data/own /data/own/root'),
        '1000:1000\n0:0\n33:44',
      )
      await run(two, 'echo two >> /data/from-one')
      assert.equal(await run(one, 'cat /mnt/data/from-one'), 'onetwo')
      const seen = await shared!.getInfo('/own/root')
      assert.deepEqual([seen.uid, seen.gid], [33, 44])
      await shared!.writeFile('/from-outside', 'outside')
      assert.equal(await run(two, 'cat /data/from-outside; stat -c %u /data/from-outside'), 'outside1000')
      await run(one, 'touch /home/user/more/x')
      assert.deepEqual(
        (await other!.list('/')).map(({ name }) => name),
        ['x'],
      )
      await assert.rejects(Volume.destroy(shared!.volumeId, warren.client), /409.*mounted in 2 sandboxes/)

      const [fork] = await one.fork({ timeoutMs: 3_600_000 })
      assert.ok(fork instanceof Sandbox, String(fork))
      await run(fork, 'echo fork > /mnt/data/from-fork')
      assert.equal(await run(one, 'cat /mnt/data/from-fork'), 'fork')
      assert.equal(await run(two, 'cat /data/from-fork'), 'fork')
      await Promise.all([fork.kill(), two.kill()])

      const { snapshotId } = await one.createSnapshot()
      const plain = await Sandbox.create(snapshotId, { ...warren.client, timeoutMs: 3_600_000 })
      assert.equal(await run(plain, 'ls -A /mnt/data /home/user/more 2>&1 | grep -c from; true'), '0')
      await plain.kill()
      await Sandbox.deleteSnapshot(snapshotId, warren.client)
      await one.kill()
      assert.equal(await Volume.destroy(shared!.volumeId, warren.client), true)
      assert.equal(await Volume.destroy(other!.volumeId, warren.client), true)
    })

    it('a sandbox keeps its volume over pause and resume, a restart and a crash of Warren', async () => {
      const volume = await Volume.create('lasting', warren.client)
      const sandbox = await create({ '/mnt/data': volume })
      const holder = 'exec 3>>/mnt/data/open; while :; do echo tick >&3; sleep 0.2; done'
      await sandbox.commands.run(holder, { background: true, timeoutMs: 0 })
      await sandbox.pause()
      await volume.writeFile('/meanwhile', 'written while it was paused')
      await assert.rejects(Volume.destroy(volume.volumeId, warren.client), /409.*mounted in 1 sandboxes/)
      const again = await Sandbox.connect(sandbox.sandboxId, { ...warren.client, timeoutMs: 3_600_000 })
      assert.equal(await run(again, 'cat /mnt/data/meanwhile'), 'written while it was paused')
      const before = (await volume.getInfo('/open')).size
      await eventually(async () => assert.ok((await volume.getInfo('/open')).size > before))

      await warren.crash()
      warren = await startWarren(isolation, { settings, keepData: true })
      assert.equal(await run(again, 'echo more > /mnt/data/meanwhile; cat /mnt/data/meanwhile'), 'more')
      assert.equal(await volume.readFile('/meanwhile'), 'more\n')
      await again.pause({ keepMemory: false })
      await warren.stop()
      warren = await startWarren(isolation, { settings, keepData: true })
      const rebooted = await Sandbox.connect(sandbox.sandboxId, { ...warren.client, timeoutMs: 3_600_000 })
      assert.equal(await run(rebooted, 'cat /mnt/data/meanwhile'), 'more')

      const doomed = 'exec 3>/mnt/data/doomed; touch /tmp/open; exec sleep 600'
      await rebooted.commands.run(doomed, { background: true, timeoutMs: 0 })
      await run(rebooted, 'while ! [ -e /tmp/open ]; do sleep 0.1; done')
      await rebooted.pause()
      await volume.remove('/doomed')
      const connect = (onResume: 'restore' | 'reboot') =>
        Sandbox.connect(sandbox.sandboxId, { ...warren.client, timeoutMs: 3_600_000, onResume })
      // gVisor finds open files again by their path; processes in containers have them as they were.
      if (isolation === 'gvisor')
        await assert.rejects(connect('restore'), /422.*had "doomed" open on a volume/)
      const last = await connect(isolation === 'gvisor' ? 'reboot' : 'restore')
      assert.equal(await run(last, 'cat /mnt/data/meanwhile'), 'more')
      await last.kill()
      assert.equal(await Volume.destroy(volume.volumeId, warren.client), true)
    })
  })
}
