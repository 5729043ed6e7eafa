/** Tests of snapshots on a real machine: what survives inside, and what survives crashes, reboots and full disks. */
import assert from 'node:assert/strict'
import { appendFile, copyFile, mkdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { countOf, momentsOf } from '../../../../test/support/count-of.ts'
import type { DriverHandle, RestoreSpec, SandboxSpec, SnapshotOptions } from '../../../core/ports/driver.ts'
import { isAppError } from '../../../lib/app-error.ts'
import { delay } from '../../../lib/clock.ts'
import { runCommand } from '../../../lib/run-command.ts'
import { listed, newSpec } from '../../driver-fixture.ts'
import { layerName, maxDiskLayers } from '../../host/disk/root-layers.ts'
import { createLayout } from '../../host/record/layout.ts'
import { createOciDriver } from '../oci-driver.ts'
import { readSnapshot } from '../snapshot/snapshot-folder.ts'
import { loopFiles, type OciBench } from './bench.ts'
import { killMakerIn, makeGood } from './dying-maker.ts'

export function ociSnapshotSuite(runtime: 'runc' | 'runsc', open: () => Promise<OciBench>): void {
  const gvisor = runtime === 'runsc'
  describe(`snapshots under ${runtime}`, () => {
    let bench: OciBench
    let folder: string
    before(async () => {
      bench = await open()
      folder = bench.snapshotFolder('state')
    })
    after(() => bench?.close())
    afterEach(async () => {
      for (const { handle } of await listed(bench.driver)) await bench.driver.stop(handle)
      await bench.driver.removeSnapshot(folder)
    })

    const options = { memory: gvisor, lasting: false } as const
    const save = (handle: DriverHandle, afterwards: SnapshotOptions['afterwards'] = 'end') =>
      bench.driver.takeSnapshot(handle, folder, { ...options, afterwards })
    const startFrom = (changes: Partial<RestoreSpec> = {}, spec: Partial<SandboxSpec> = {}) =>
      bench.driver.start(
        newSpec(bench, {
          ...spec,
          fromSnapshot: { folder, memory: true, keepSnapshot: true, ...changes },
        }),
      )

    it('give each fork its own hostname, machine id and address', async () => {
      const handle = await bench.sandbox()
      await save(handle, 'go-on')
      const forks = await Promise.all(Array.from({ length: 3 }, () => startFrom()))
      const ask = 'hostname; cat /etc/hostname; grep -c "$(hostname)" /etc/hosts; cat /etc/machine-id'
      const machines = new Set<string>()
      for (const fork of [handle, ...forks]) {
        const [name, file, hosts, machine] = (await bench.run(fork, ask)).trim().split('\n')
        assert.deepEqual([name, file, hosts], [fork.data.sandboxID, fork.data.sandboxID, '1'])
        machines.add(machine!)
      }
      assert.equal(machines.size, 4)
    })

    it('share large files with their forks instead of copying them', async () => {
      const handle = await bench.sandbox({ diskMB: 256 })
      await bench.run(handle, 'dd if=/dev/urandom of=/root/large bs=1M count=60 status=none')
      const sum = await bench.run(
        handle,
        'md5sum < /root/large; rm /etc/issue; mkdir /root/d; echo kept > /root/d/f',
      )
      await save(handle, 'go-on')
      const forks = await Promise.all([startFrom(), startFrom()])
      await bench.driver.removeSnapshot(folder)
      // Both use one device, so the page cache holds its blocks once.
      const layers = loopFiles().filter(
        (file) => file.startsWith(bench.options.dataFolder) && file.includes(layerName(1)),
      )
      assert.equal(layers.length, 1, layers.join())
      for (const fork of forks) {
        assert.equal(await bench.run(fork, 'md5sum < /root/large'), sum)
        assert.ok((await diskBytes(fork)) < 8 * 1024 * 1024)
        const edited = 'rm -r /root/d /root/large; ls /root; ls /etc/issue 2>&1; echo new > /etc/issue'
        assert.match(await bench.run(fork, edited), /No such file/)
      }
      assert.equal((await bench.run(handle, 'cat /root/d/f')).trim(), 'kept')
    })

    const diskBytes = async (handle: DriverHandle) => {
      const layout = createLayout(bench.options.dataFolder, bench.options.instance)
      return (await stat(join(layout.sandbox(String(handle.data.sandboxID)), 'disk.ext4'))).blocks * 512
    }

    // Merging layers does not depend on the runtime, so one runtime suffices for the full number of generations.
    const generations = gvisor ? countOf({ short: 3, long: maxDiskLayers + 2 }) : maxDiskLayers + 2
    it(`keep every file over ${generations} generations, of at most ${maxDiskLayers} layers`, async () => {
      let handle = await bench.sandbox({ diskMB: 256 })
      for (let generation = 0; generation < generations; generation++) {
        const name = `/root/${generation}`
        await bench.run(
          handle,
          `dd if=/dev/urandom of=${name} bs=1M count=17 status=none; md5sum ${name} >> /root/sums`,
        )
        if (generation > 0) await bench.run(handle, `rm /root/${generation - 1}; sed -i 1d /root/sums`)
        await save(handle)
        handle = await startFrom()
        await bench.driver.removeSnapshot(folder)
      }
      const left = await bench.run(handle, 'md5sum -c --quiet /root/sums; ls /root')
      assert.equal(left.trim(), `${generations - 1}\nsums`)
      await save(handle)
      const larger = await startFrom({ memory: false }, { diskMB: 512 })
      assert.equal((await bench.run(larger, 'md5sum -c --quiet /root/sums; ls /root')).trim(), left.trim())
      const { diskTotalBytes } = await bench.driver.stats(larger)
      assert.ok(diskTotalBytes > 450 * 2 ** 20, `${diskTotalBytes}`)
    })

    it('take no more disk space than the sandbox wrote', async () => {
      const handle = await bench.sandbox({ diskMB: 2048, memoryMB: 512 })
      await bench.run(handle, 'dd if=/dev/urandom of=/root/f bs=1M count=20 status=none; rm /root/f; sync')
      const { bytes } = await save(handle)
      assert.ok(bytes < 30 * 1024 * 1024, `${bytes}`)
    })

    it('can be restored after everything but the data folder was lost', async () => {
      const handle = await bench.sandbox()
      await bench.remember(handle, 'in memory', 'in a file')
      await bench.driver.takeSnapshot(handle, folder, { ...options, afterwards: 'end', lasting: true })
      await bench.driver.close()
      const layout = createLayout(bench.options.dataFolder, bench.options.instance)
      await rm(layout.run, { recursive: true, force: true })
      const again = await startFrom({ keepSnapshot: false }, { sandboxID: String(handle.data.sandboxID) })
      const memory = gvisor ? 'in memory' : undefined
      assert.deepEqual(await bench.recall(again), { memory, file: 'in a file' })
    })

    it('fail on a full disk, and leave the sandbox running and no folder', async () => {
      const handle = await bench.sandbox()
      await bench.run(handle, 'dd if=/dev/urandom of=/root/f bs=1M count=20 status=none')
      await bench.remember(handle, 'in memory', 'in a file')
      const target = bench.snapshotFolder('small')
      await mkdir(target, { recursive: true })
      await runCommand('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', target])
      try {
        for (const afterwards of ['go-on', 'end'] as const) {
          const full = bench.driver.takeSnapshot(handle, join(target, 'state'), { ...options, afterwards })
          await assert.rejects(full, (error) => isAppError(error, 'no_space'))
          assert.equal(await bench.driver.findSnapshot(join(target, 'state')), undefined)
          assert.equal((await runCommand('ls', [target])).stdout, '')
          assert.equal(await bench.driver.recover(handle), 'running')
        }
      } finally {
        await runCommand('umount', [target])
      }
      assert.deepEqual(await bench.recall(handle), { memory: 'in memory', file: 'in a file' })
      await save(handle)
    })

    it('start from repaired files after a sandbox on the same files was killed', async () => {
      const handle = await bench.sandbox()
      await bench.remember(handle, 'in memory', 'in a file')
      await save(handle)
      await bench.driver.stop(await startFrom({ keepSnapshot: false }))
      if (gvisor) await assert.rejects(startFrom(), (error) => isAppError(error, 'conflict'))
      const again = await startFrom({ memory: false, keepSnapshot: false })
      assert.deepEqual(await bench.recall(again), { memory: undefined, file: 'in a file' })
    })

    it('cannot be taken outside the data folder', async () => {
      const handle = await bench.sandbox()
      const outside = { ...options, afterwards: 'go-on' } as const
      for (const path of ['/tmp/state', join(bench.options.dataFolder, '../state')]) {
        await assert.rejects(bench.driver.takeSnapshot(handle, path, outside), (error) =>
          isAppError(error, 'invalid_argument'),
        )
      }
    })

    for (const verb of ['pause', 'snapshot'] as const) {
      it(`are complete or absent whenever the process dies in a ${verb}, and nothing is lost`, async () => {
        const first = await bench.sandbox()
        const sandboxID = String(first.data.sandboxID)
        await bench.remember(first, 'in memory', 'in a file')
        for (const afterMs of momentsOf({ short: 3, long: 20 }, 900)) {
          await bench.driver.close()
          await killMakerIn(bench, { verb, sandboxID, folder }, afterMs)
          const handle = await makeGood(bench, sandboxID, folder)
          const { memory, file } = await bench.recall(handle)
          assert.equal(file, 'in a file', `after ${afterMs} ms`)
          // A pause of a plain container has no memory, so its text in memory may be lost.
          if (gvisor || verb === 'snapshot') assert.equal(memory, 'in memory', `after ${afterMs} ms`)
          await bench.driver.removeSnapshot(folder)
        }
      })
    }

    if (!gvisor) return

    it('keep processes, timers, sockets, open and deleted files, and the right time', async () => {
      const handle = await bench.sandbox()
      await bench.run(handle, guest)
      await save(handle)
      await delay(2500)
      const resumedAt = Date.now() / 1000
      const again = await startFrom({ keepSnapshot: false })
      const seen = JSON.parse(
        await bench.run(
          again,
          'kill -USR1 $(cat /root/guest); while ! [ -s /root/seen ]; do sleep 0.1; done; cat /root/seen',
        ),
      )
      const { now, started, ...rest } = seen as Record<string, number>
      assert.deepEqual(rest, { open: 'open', deleted: 'deleted', alarm: 1, unix: 1, tcp: 1, env: 'kept' })
      assert.ok(now! >= resumedAt - 1 && now! <= Date.now() / 1000 + 1, `the clock says ${now}`)
      assert.ok(now! - started! >= 2, 'the time of the pause has passed')
    })

    it('end open connections at once instead of letting them hang', async () => {
      const handle = await bench.sandbox()
      await bench.run(handle, connected(bench.driver.endpoint(handle, 0).host))
      await save(handle, 'go-on')
      assert.equal((await bench.run(handle, 'cat /root/ended 2>/dev/null')).trim(), '')
      const fork = await startFrom()
      assert.match(
        await bench.run(fork, 'while ! [ -s /root/ended ]; do sleep 0.1; done; cat /root/ended'),
        /end|reset|abort/i,
      )
    })

    it('keep memory and files intact over many pauses under load', async () => {
      let handle = await bench.sandbox({ memoryMB: 512, diskMB: 256 })
      await bench.run(handle, worker)
      for (let left = countOf({ short: 3, long: 20 }); left > 0; left--) {
        await save(handle)
        handle = await startFrom({ keepSnapshot: false }, { sandboxID: String(handle.data.sandboxID) })
        await bench.driver.removeSnapshot(folder)
      }
      const verdict = await bench.run(
        handle,
        'touch /root/stop; while ! [ -s /root/verdict ]; do sleep 0.1; done; cat /root/verdict',
      )
      assert.match(verdict, /^whole after \d+ rounds$/m)
    })

    it('of a sandbox that an older build started are taken and restored by that build', async () => {
      const olderBuild = join(bench.options.dataFolder, 'older-runsc')
      await copyFile(bench.options.runtimeBinary, olderBuild)
      await appendFile(olderBuild, 'x')
      await bench.driver.close()
      const older = createOciDriver({ ...bench.options, runtimeBinary: olderBuild })
      const handle = await older.start(newSpec(bench))
      await bench.remember(handle, 'in memory', 'in a file')
      await older.close()
      assert.equal(await bench.driver.recover(handle), 'running')
      await save(handle, 'go-on')
      assert.equal((await readSnapshot(folder))?.build?.path, olderBuild)
      assert.deepEqual(await bench.recall(handle), { memory: 'in memory', file: 'in a file' })
      const fork = await startFrom()
      assert.deepEqual(await bench.recall(fork), { memory: 'in memory', file: 'in a file' })
      for (const each of [handle, fork]) await bench.driver.stop(each)
    })

    it('are rejected by another build of gVisor, with what to do, and start without memory', async () => {
      const build = join(bench.options.dataFolder, 'another-runsc')
      await copyFile(bench.options.runtimeBinary, build)
      await bench.driver.close()
      const other = createOciDriver({ ...bench.options, runtimeBinary: build })
      const handle = await other.start(newSpec(bench))
      await bench.remember(handle, 'in memory', 'in a file')
      await other.takeSnapshot(handle, folder, { ...options, afterwards: 'end' })
      await other.close()
      // The same build at another path can restore it.
      const again = await startFrom()
      await rm(build)
      assert.equal((await bench.recall(again)).memory, 'in memory')
      await bench.driver.stop(again)
      await bench.driver.close()
      await copyFile(bench.options.runtimeBinary, build)
      await appendFile(build, 'x')
      const newer = createOciDriver({ ...bench.options, runtimeBinary: build })
      // The build that took the snapshot is gone, and its path has the changed build.
      const saved = { folder, memory: true, keepSnapshot: true }
      await assert.rejects(newer.start(newSpec(bench, { fromSnapshot: saved })), (error) =>
        isAppError(error, 'unprocessable'),
      )
      const booted = await newer.start(newSpec(bench, { fromSnapshot: { ...saved, memory: false } }))
      assert.deepEqual(await bench.recall(booted), { memory: undefined, file: 'in a file' })
      await newer.stop(booted)
      await newer.close()
    })
  })
}

const ready = (file: string) => `while ! [ -e ${file} ]; do sleep 0.02; done`

/** Opens files, sockets and timers before the snapshot, and on SIGUSR1 reports their state. */
const guest = `cat > /root/guest.py <<'END'
import json, os, signal, socket, time
os.environ['KEPT'] = 'kept'
started = time.time()
kept = open('/root/open', 'w+'); kept.write('open'); kept.flush()
gone = open('/root/gone', 'w+'); gone.write('deleted'); gone.flush(); os.unlink('/root/gone')
unix = socket.socket(socket.AF_UNIX); unix.bind('/root/sock'); unix.listen()
tcp = socket.socket(); tcp.bind(('127.0.0.1', 7000)); tcp.listen()
alarm = [0]
def ring(*_): alarm[0] += 1
def dial(kind, address):
    client = socket.socket(kind); client.settimeout(5); client.connect(address); return 1
def say(*_):
    kept.seek(0); gone.seek(0)
    seen = dict(open=kept.read(), deleted=gone.read(), alarm=alarm[0], unix=dial(socket.AF_UNIX, '/root/sock'),
        tcp=dial(socket.AF_INET, ('127.0.0.1', 7000)), env=os.environ['KEPT'], now=time.time(), started=started)
    open('/root/seen', 'w').write(json.dumps(seen))
signal.signal(signal.SIGALRM, ring); signal.signal(signal.SIGUSR1, say)
signal.setitimer(signal.ITIMER_REAL, 1.5)
open('/root/guest', 'w').write(str(os.getpid()))
while True: time.sleep(1)
END
setsid python3 /root/guest.py </dev/null >/root/guest.log 2>&1 &
${ready('/root/guest')}`

/** Opens a connection over the sandbox's own address, which the fork does not have. */
const connected = (address: string) => `cat > /root/c.py <<'END'
import socket
server = socket.socket(); server.bind(('${address}', 7100)); server.listen()
client = socket.create_connection(('${address}', 7100)); held, _ = server.accept()
open('/root/connected', 'w').close()
try: text = 'end' if client.recv(1) == b'' else 'data'
except OSError as error: text = str(error)
open('/root/ended', 'w').write(text)
END
setsid python3 /root/c.py </dev/null >/root/c.log 2>&1 &
${ready('/root/connected')}`

/** Changes a large pattern in memory and files all the time and checks both. */
const worker = `cat > /root/w.py <<'END'
import hashlib, os
blocks = [bytearray(os.urandom(1 << 20)) for _ in range(40)]
sums = [hashlib.md5(b).hexdigest() for b in blocks]
rounds = 0
def check():
    for i, b in enumerate(blocks):
        if hashlib.md5(b).hexdigest() != sums[i]: return 'memory %d differs' % i
        path = '/root/block%d' % i
        if os.path.exists(path) and hashlib.md5(open(path, 'rb').read()).hexdigest() != sums[i]: return 'file %d differs' % i
while not os.path.exists('/root/stop'):
    i = rounds % 40
    blocks[i][:] = os.urandom(1 << 20); sums[i] = hashlib.md5(blocks[i]).hexdigest()
    with open('/root/new', 'wb') as f: f.write(blocks[i])
    os.rename('/root/new', '/root/block%d' % i)
    rounds += 1
    open('/root/working', 'w').close()
    if rounds % 50 == 0:
        wrong = check()
        if wrong: open('/root/verdict', 'w').write(wrong); raise SystemExit
open('/root/verdict', 'w').write(check() or 'whole after %d rounds' % rounds)
END
setsid python3 /root/w.py </dev/null >/root/w.log 2>&1 &
${ready('/root/working')}`
