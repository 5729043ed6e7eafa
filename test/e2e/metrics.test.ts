/** What a sandbox used, read by the unmodified clients and command line, on both runtimes. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import * as current from 'e2b'
import * as older from 'e2b-2.45'
import { e2b } from '../support/e2b-cli.ts'
import { eventually } from '../support/eventually.ts'
import { printedBy } from '../support/python.ts'
import { pythonReleases } from '../support/releases.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

const { Sandbox } = current
const mebibyte = 1024 * 1024

for (const isolation of isolations) {
  describe(`metrics, ${isolation}`, () => {
    let warren: Warren
    let sandbox: current.Sandbox
    before(async () => {
      warren = await joinWarren(isolation)
      sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
    })
    after(async () => {
      await sandbox?.kill()
      await warren?.stop()
    })

    /** What the agent itself tells. */
    async function inside(): Promise<Record<string, number>> {
      const { envdAccessToken } = sandbox as unknown as { envdAccessToken: string }
      const headers = { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49983' }
      const response = await fetch(`${warren.url}/metrics`, {
        headers: { ...headers, 'X-Access-Token': envdAccessToken },
      })
      assert.equal(response.status, 200)
      return (await response.json()) as Record<string, number>
    }

    const near = (value: number, wanted: number, share: number, name: string) =>
      assert.ok(Math.abs(value - wanted) <= wanted * share, `${name}: ${value}, not about ${wanted}`)

    it('are the same through both releases of the client, with a start and an end', async () => {
      await eventually(async () => assert.ok((await sandbox.getMetrics()).length >= 2))
      const { Sandbox: OlderSandbox } = older
      const points = await sandbox.getMetrics()
      const before = await OlderSandbox.getMetrics(sandbox.sandboxId, {
        ...warren.client,
        end: points.at(-1)!.timestamp,
      })
      assert.deepEqual(before.slice(0, 2), points.slice(0, 2))
      const details = await sandbox.getInfo()
      const [{ cpuCount, memTotal, memUsed, diskTotal, timestamp }] = points as [current.SandboxMetrics]
      assert.deepEqual([cpuCount, memTotal], [details.cpuCount, details.memoryMB * mebibyte])
      assert.ok(memUsed > mebibyte && memUsed < memTotal / 4, `${memUsed}`)
      assert.ok(diskTotal > 1024 * mebibyte)
      assert.ok(timestamp >= details.startedAt)
      const early = new Date(details.startedAt.getTime() - 3_600_000)
      const none = await sandbox.getMetrics({ start: early, end: new Date(early.getTime() + 1000) })
      assert.deepEqual(none, [])
    })

    it('follow memory that is allocated and freed', async () => {
      const [idle] = (await sandbox.getMetrics()).slice(-1)
      const useMemory = `python3 -c "
import time
held = bytearray(200 * 1024 * 1024)
for at in range(0, len(held), 4096): held[at] = 1
time.sleep(1000)"`
      const holder = await sandbox.commands.run(useMemory, { background: true, timeoutMs: 0 })
      await eventually(async () => {
        const [metric] = (await sandbox.getMetrics()).slice(-1)
        near(metric!.memUsed - idle!.memUsed, 200 * mebibyte, 0.15, 'held')
        near((await inside()).mem_used!, metric!.memUsed, 0.15, 'from inside')
      })
      await holder.kill()
      await eventually(async () => {
        const [freed] = (await sandbox.getMetrics()).slice(-1)
        assert.ok(freed!.memUsed < idle!.memUsed + 20 * mebibyte, `${freed!.memUsed}`)
      })
    })

    it('follow the disk', async () => {
      const before = await inside()
      await sandbox.commands.run('dd if=/dev/zero of=/tmp/large bs=1M count=100 conv=fsync')
      near((await inside()).disk_used! - before.disk_used!, 100 * mebibyte, 0.02, 'from inside')
      await eventually(async () => {
        const [point] = (await sandbox.getMetrics()).slice(-1)
        near(point!.diskUsed - before.disk_used!, 100 * mebibyte, 0.02, 'written')
        assert.equal(point!.diskTotal, before.disk_total)
      })
      await sandbox.commands.run('rm /tmp/large')
    })

    it('follow CPU time, up to what the machine gave', async () => {
      const spin = 'python3 -c "\nimport time\nwhile time.process_time() < 3: pass\nprint(time.time())"'
      const started = Date.now()
      await sandbox.commands.run(spin, { timeoutMs: 0 })
      const ended = Date.now()
      await eventually(async () => {
        const points = await sandbox.getMetrics()
        assert.ok(points.at(-1)!.timestamp.getTime() > ended, 'a point after the load')
        let usedMs = 0
        for (const [at, point] of points.entries()) {
          const from = points[at - 1]?.timestamp.getTime()
          const to = point.timestamp.getTime()
          if (from === undefined || to < started || from > ended) continue
          usedMs += (point.cpuUsedPct / 100) * (to - from) * point.cpuCount
        }
        // gVisor counts the time a process was to run for it, also where the machine gave it to another; both
        // add the shell, Python's start, and gVisor's own work.
        assert.ok(usedMs > (isolation === 'gvisor' ? 300 : 2700) && usedMs < 6000, `${usedMs} ms`)
      })
    })

    // Who reads them does not matter to what they are.
    if (isolation !== 'container') return

    for (const [version] of pythonReleases(isolation, 'same')) {
      it(`are read by Python ${version}, sync and async`, () => {
        const { sync, later } = JSON.parse(printedBy(warren, version, 'metrics.py', sandbox.sandboxId))
        assert.ok(sync.length > 0)
        assert.deepEqual(later.slice(0, sync.length), sync)
      })
    }

    it('are shown by the command line, beside the sandbox itself', async () => {
      const id = sandbox.sandboxId
      const shown = await e2b(warren, 'sandbox', 'metrics', id)
      assert.match(shown, /CPU: +[\d.]+% +\/ +2 Cores \| Memory: +\d+ \/ \d+ +MiB \| Disk: +\d+ \/ \d+ +MiB/)
      assert.match(await e2b(warren, 'sandbox', 'list'), new RegExp(id))
      assert.match(await e2b(warren, 'sandbox', 'info', id), new RegExp(id))
      assert.equal(
        await e2b(warren, 'sandbox', 'exec', id, 'echo from-the-command-line'),
        'from-the-command-line\n',
      )
      assert.match(await e2b(warren, 'sandbox', 'kill', id), /has been killed/)
      assert.equal(await sandbox.isRunning(), false)
      assert.match(await e2b(warren, 'sandbox', 'logs', id), /Sandbox ended: killed/)
    })
  })
}
