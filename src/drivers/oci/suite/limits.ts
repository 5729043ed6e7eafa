/** Tests of a sandbox's limits: it cannot exceed them, and it lives on when it tries. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { DriverHandle } from '../../../core/ports/driver.ts'
import { delay } from '../../../lib/clock.ts'
import { collectExits } from '../../failure-suite.ts'
import { findCgroupMounts } from '../../host/process/cgroup-mounts.ts'
import { openCgroups } from '../../host/process/cgroups.ts'
import { createLayout } from '../../host/record/layout.ts'
import { type OciBench, testPidsLimit } from './bench.ts'

export function limitsSuite(runtime: 'runc' | 'runsc', open: () => Promise<OciBench>): void {
  describe(`the limits of a sandbox under ${runtime}`, () => {
    let bench: OciBench
    let handle: DriverHandle
    before(async () => {
      bench = await open()
      handle = await bench.sandbox({ diskMB: 100 })
    })
    after(() => bench?.close())
    const run = (script: string) => bench.run(handle, script)

    it('a full disk returns an error in every folder, and works again after files are removed', async () => {
      for (const folder of ['/root', '/tmp', '/var/lib']) {
        assert.match(
          await run(`dd if=/dev/zero of=${folder}/big bs=1M count=200 2>&1`),
          /No space left on device/,
        )
        const stats = await bench.driver.stats(handle)
        assert.ok(stats.diskUsedBytes > 80 * 1024 * 1024, `${stats.diskUsedBytes}`)
        assert.equal(
          (await run(`rm ${folder}/big && echo again > ${folder}/small && cat ${folder}/small`)).trim(),
          'again',
        )
      }
    })

    it('bytes that it has written count at once, before and after they reach the disk', async () => {
      const sizeNow = async () => {
        const use = (await bench.driver.diskUse()).find((one) => one.sandboxID === handle.data.sandboxID)!
        return use.allocatedBytes + use.unwrittenBytes
      }
      await run('rm -f /root/big; sync')
      const before = await sizeNow()
      await run('dd if=/dev/urandom of=/root/big bs=1M count=30 2>/dev/null')
      const grown = (await sizeNow()) - before
      assert.ok(grown > 25 * 1024 * 1024 && grown < 40 * 1024 * 1024, `${grown} bytes`)
      await run('sync')
      const synced = (await sizeNow()) - before
      assert.ok(synced > 25 * 1024 * 1024 && synced < 40 * 1024 * 1024, `${synced} bytes`)
      await run('rm /root/big')
    })

    it('never takes more of the host’s disk than its size', async () => {
      const layout = createLayout(bench.options.dataFolder, bench.options.instance)
      await run('dd if=/dev/urandom of=/root/big bs=1M count=200 2>/dev/null; sync; rm /root/big')
      const image = await stat(join(layout.sandbox(String(handle.data.sandboxID)), 'disk.ext4'))
      assert.equal(image.size, 100 * 1024 * 1024)
      assert.ok(image.blocks * 512 <= image.size + 1024 * 1024)
    })

    it('running out of inodes is an error, and the sandbox lives on', async () => {
      const script = `mkdir /root/many && cd /root/many && python3 -c '
import os
n = 0
try:
    while n < 200000:
        os.close(os.open(str(n), os.O_CREAT | os.O_WRONLY)); n += 1
except OSError as error: print(error.errno)'; cd /; rm -r /root/many; touch /root/one && echo alive`
      assert.equal((await run(script)).trim(), '28\nalive')
    })

    it('shared memory is a part of its memory', async () => {
      assert.match(
        await run('dd if=/dev/zero of=/dev/shm/big bs=1M count=200 2>&1; rm /dev/shm/big'),
        /No space left/,
      )
    })

    it('a fork bomb gets errors and the sandbox lives on', async () => {
      // As a user, because gVisor's own limit does not apply to root.
      const script = `setpriv --reuid=65534 --regid=65534 --clear-groups python3 - <<'END'
import os, signal
children = []
try:
    while len(children) < 1000:
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
except OSError as error: print(error.errno)
print(len(children))
for child in children: os.kill(child, 9)
for child in children: os.waitpid(child, 0)
END
echo alive`
      const roomy = await bench.sandbox({ memoryMB: 1024 })
      const [errno, count, alive] = (await bench.run(roomy, script)).trim().split('\n')
      await bench.driver.stop(roomy)
      assert.equal(errno, '11')
      assert.ok(Number(count) < testPidsLimit, count)
      assert.equal(alive, 'alive')
    })

    it('limits cannot be raised from inside', async () => {
      const raise = 'ulimit -Hn 10000000; ulimit -Hc unlimited; ulimit -Hu unlimited'
      const before = await run('ulimit -Hn; ulimit -Hc')
      await run(`${raise} 2>/dev/null`)
      assert.equal(await run('ulimit -Hn; ulimit -Hc'), before)
      assert.match(await run('(ulimit -Hn 10000000) 2>&1'), /not permitted/)
    })

    it('it runs on as many CPUs as it was given and on no others', async () => {
      assert.equal((await run('nproc')).trim(), '1')
      const two = await bench.sandbox({ cpuCount: 2 })
      assert.equal((await bench.run(two, 'nproc')).trim(), '2')
      await bench.driver.stop(two)
    })

    it('a background sandbox leaves the CPUs to others until it is adopted', async () => {
      const { unified, file } = findCgroupMounts(readFileSync('/proc/self/mountinfo', 'utf8'))
      const layout = createLayout(bench.options.dataFolder, bench.options.instance)
      const sharesOf = async ({ data }: DriverHandle) => {
        const group = layout.cgroup(String(data.sandboxID))
        return Number(await readFile(file('cpu', group, unified ? 'cpu.weight' : 'cpu.shares'), 'utf8'))
      }
      const usual = await sharesOf(handle)
      const waiting = await bench.sandbox({ background: true, disposable: true })
      assert.ok((await sharesOf(waiting)) <= usual / 10)
      await bench.driver.adopt(waiting)
      assert.equal(await sharesOf(waiting), usual)
      await bench.driver.stop(waiting)
    })

    it('the kernel kills a process of a sandbox before the server when memory runs out', async () => {
      const layout = createLayout(bench.options.dataFolder, bench.options.instance)
      const pids = await openCgroups().pids(layout.cgroup(String(handle.data.sandboxID)))
      const scoreOf = (pid: number | 'self') => Number(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8'))
      assert.ok(pids.length > 0)
      for (const pid of pids) assert.ok(scoreOf(pid) >= scoreOf('self') + 500, `${pid} has ${scoreOf(pid)}`)
    })

    // Under gVisor the host's kernel cannot tell the sandbox's processes apart; the agent watches them instead.
    if (runtime === 'runc') {
      it('a process that takes too much memory dies, and the sandbox lives on', async () => {
        const output = await run('python3 -c "x = bytearray(600 * 1024 * 1024); print(len(x))"; echo $?')
        assert.match(output, /137\n$/)
        assert.equal(await bench.driver.recover(handle), 'running')
        assert.equal((await run('echo alive')).trim(), 'alive')
      })

      it('the memory figures that it sees follow its use', async () => {
        const availableMB = async () =>
          Number(/MemAvailable:\s+(\d+)/.exec(await run('cat /proc/meminfo'))![1]) / 1024
        const until = async (condition: (availableMB: number) => boolean) => {
          while (!condition(await availableMB())) await delay(50)
        }
        await until((available) => available > 150)
        await run('dd if=/dev/zero of=/dev/shm/held bs=1M count=128 2>/dev/null')
        await until((available) => available < 150)
        await run('rm /dev/shm/held')
        await until((available) => available > 150)
      })
    } else {
      it('a sandbox that runs out of memory ends, and its exit has that reason', async () => {
        const greedy = await bench.sandbox()
        const exits = collectExits(bench.driver)
        const useMemory = `python3 -c "x = b'x' * (1000 * 1024 * 1024)"`
        await bench.run(greedy, `setsid ${useMemory} </dev/null >/dev/null 2>&1 &`)
        const { runID, reason } = await exits.next()
        assert.deepEqual([runID, reason], [greedy.data.runID, 'out_of_memory'])
        exits.close()
        await bench.driver.stop(greedy)
      })

      it('gVisor has memory headroom of its own beside the sandbox’s memory', async () => {
        const script = `python3 -c "x = bytearray(200 * 1024 * 1024); x[::4096] = b'x' * len(x[::4096]); print('fits')"`
        assert.equal((await run(script)).trim(), 'fits')
        assert.equal(await bench.driver.recover(handle), 'running')
      })
    }
  })
}
