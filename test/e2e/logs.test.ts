/** What happened in a sandbox and what it used, read by the unmodified clients and command line, on both runtimes. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify, stripVTControlCharacters } from 'node:util'
import * as current from 'e2b'
import * as older from 'e2b-2.45'
import { delay } from '../../src/lib/clock.ts'
import { eventually } from '../support/eventually.ts'
import { printedBy } from '../support/python.ts'
import { isolations, repoFolder, startWarren, type Warren } from '../support/warren.ts'

const { Sandbox } = current
const mebibyte = 1024 * 1024

type Entry = { timestamp: string; level: string; message: string; fields: Record<string, string> }

async function readLog(warren: Warren, sandboxID: string, query = 'direction=forward'): Promise<Entry[]> {
  const response = await warren.api(`/v2/sandboxes/${sandboxID}/logs?${query}`)
  assert.equal(response.status, 200)
  return ((await response.json()) as { logs: Entry[] }).logs
}

const messages = (entries: Entry[]) => entries.map(({ message }) => message)

/** `e2b` as a user types it; rejects when it ends with a failure. */
async function cli(warren: Warren, ...words: string[]): Promise<string> {
  const running = promisify(execFile)(join(repoFolder, 'node_modules/.bin/e2b'), words, {
    env: { ...process.env, ...warren.environment },
    ...{ timeout: 60_000, killSignal: 'SIGKILL' },
  })
  // `exec` hands its input on, and would wait for the end of ours.
  running.child.stdin?.end()
  const { stdout } = await running
  return stripVTControlCharacters(stdout)
}

for (const isolation of isolations) {
  describe(`logs, ${isolation}`, () => {
    let warren: Warren
    let sandbox: current.Sandbox
    before(async () => {
      warren = await startWarren(isolation)
      const envs = { SECRET: 'value-of-the-secret' }
      sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 600_000, envs })
      await sandbox.commands.run('echo töne; echo bad >&2; exit 3').catch(() => {})
      await sandbox.files.write('note.txt', 'contents-of-the-note')
      await sandbox.files.read('note.txt')
      await eventually(async () => {
        assert.ok(
          messages(await readLog(warren, sandbox.sandboxId))
            .at(-1)
            ?.startsWith('File read'),
        )
      })
    })
    after(async () => {
      await sandbox?.kill()
      await warren?.stop()
    })

    it('tell the life of the sandbox, its processes with their output, and its files', async () => {
      const entries = await readLog(warren, sandbox.sandboxId)
      assert.deepEqual(
        entries.map(({ level, message, fields }) => [level, fields.event_type, message]),
        [
          ['info', 'sandbox_created', 'Sandbox created from template base for 600 s'],
          ['info', 'agent_init', 'Agent ready'],
          ['info', 'process_start', 'Process started: /bin/bash -l -c echo töne; echo bad >&2; exit 3'],
          ['info', 'stdout', 'töne'],
          ['error', 'stderr', 'bad'],
          ['info', 'process_end', 'Process ended: exit status 3'],
          ['info', 'file_write', 'File written: /home/user/note.txt'],
          ['info', 'file_read', 'File read: /home/user/note.txt'],
        ],
      )
      const times = entries.map(({ timestamp }) => timestamp)
      assert.deepEqual(times, [...new Set(times)].sort())
      assert.ok(Math.abs(Date.now() - Date.parse(times.at(-1)!)) < 60_000)
    })

    it('hold no secrets', async () => {
      await sandbox.commands.run('true', { envs: { OWN: 'value-of-its-own' } })
      const url = await sandbox.downloadUrl('note.txt', { useSignatureExpiration: 60 })
      assert.equal((await fetch(url)).status, 200)
      await eventually(async () => {
        const found = await readLog(warren, sandbox.sandboxId)
        assert.equal(found.filter(({ fields }) => fields.event_type === 'file_read').length, 2)
      })
      const text = JSON.stringify(await readLog(warren, sandbox.sandboxId))
      const { envdAccessToken } = sandbox as unknown as { envdAccessToken: string }
      const signature = new URL(url).searchParams.get('signature')!
      for (const secret of ['value-of', 'contents-of', envdAccessToken, signature, warren.apiKey]) {
        assert.ok(secret.length > 0 && !text.includes(secret), secret)
      }
    })

    it('are filtered by level and text, and paged in both directions without loss', async () => {
      const id = sandbox.sandboxId
      assert.deepEqual(messages(await readLog(warren, id, 'level=error')), ['bad'])
      assert.deepEqual(messages(await readLog(warren, id, 'search=t%C3%B6ne&direction=forward')).slice(1), [
        'töne',
      ])
      const all = messages(await readLog(warren, id))
      const paged: string[] = []
      for (let cursor = Date.now() + 60_000; ; ) {
        const page = await readLog(warren, id, `limit=2&cursor=${cursor}`)
        if (page.length === 0) break
        paged.unshift(...messages(page).reverse())
        cursor = Date.parse(page.at(-1)!.timestamp)
      }
      assert.deepEqual(paged, all)
    })

    it('cannot be had from the agent, neither through the edge nor from inside', async () => {
      const { envdAccessToken } = sandbox as unknown as { envdAccessToken: string }
      const headers = { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49983' }
      const outside = await fetch(`${warren.url}/logs`, {
        headers: { ...headers, 'X-Access-Token': envdAccessToken },
      })
      assert.equal(outside.status, 404)
      const inside = await sandbox.commands.run(
        `python3 -c "
import urllib.request, urllib.error
try: urllib.request.urlopen('http://127.0.0.1:49983/logs')
except urllib.error.HTTPError as error: print(error.code)"`,
      )
      assert.equal(inside.stdout, '401\n')
    })

    it('are empty for another team', async () => {
      const headers = { 'X-Admin-Token': warren.adminToken }
      const made = await warren.api('/admin/teams', { headers, key: null, body: { name: 'Curious' } })
      const { teamID } = (await made.json()) as { teamID: string }
      const keyed = await warren.api(`/admin/teams/${teamID}/api-keys`, {
        ...{ headers, key: null, body: { name: 'k' } },
      })
      const { key } = (await keyed.json()) as { key: string }
      const get = async (path: string) => (await warren.api(path, { key })).json()
      const id = sandbox.sandboxId
      assert.deepEqual(await get(`/sandboxes/${id}/logs`), { logs: [], logEntries: [] })
      assert.deepEqual(await get(`/v2/sandboxes/${id}/logs`), { logs: [] })
      assert.deepEqual(await get(`/sandboxes/${id}/metrics`), [])
      assert.deepEqual(await get(`/sandboxes/metrics?sandbox_ids=${id}`), { sandboxes: {} })
    })

    it('are shown by the command line, whole and filtered', async () => {
      const id = sandbox.sandboxId
      const whole = await cli(warren, 'sandbox', 'logs', id)
      assert.match(whole, /INFO {2}\{.*message: 'töne'/)
      assert.match(whole, /ERROR \{.*message: 'bad'/)
      const errors = await cli(warren, 'sandbox', 'logs', id, '--level', 'ERROR', '--format', 'json')
      const parsed = errors
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
      assert.deepEqual(
        parsed.map(({ message, logger, event_type }) => [message, logger, event_type]),
        [['bad', 'process', 'stderr']],
      )
      const files = await cli(warren, 'sandbox', 'logs', id, '--loggers', 'files')
      assert.match(files, /File written/)
      assert.doesNotMatch(files, /Process started/)
    })

    it('are followed by the command line until the sandbox ends', async () => {
      const own = await Sandbox.create('base', { ...warren.client, timeoutMs: 60_000 })
      const following = cli(warren, 'sandbox', 'logs', own.sandboxId, '--follow')
      for (const word of ['first', 'second', 'third']) {
        await own.commands.run(`echo ${word}`)
        await delay(500)
      }
      await own.kill()
      const text = await following
      for (const word of ['first', 'second', 'third']) {
        assert.equal(text.split(`message: '${word}'`).length, 2, `${word} once in ${text}`)
      }
      assert.match(text, /sandbox is closed/)
    })

    it('are there after the sandbox has ended, to its last words', async () => {
      const own = await Sandbox.create('base', { ...warren.client, timeoutMs: 60_000 })
      await own.commands.run('echo last words')
      await own.kill()
      await eventually(async () => {
        const told = messages(await readLog(warren, own.sandboxId))
        assert.deepEqual(told.slice(-3), [
          ...['last words', 'Process ended: exit status 0', 'Sandbox ended: killed'],
        ])
      })
    })

    it('stay small in a flood and tell what is missing', async () => {
      const own = await Sandbox.create('base', { ...warren.client, timeoutMs: 60_000 })
      const run = await own.commands.run('yes | head -c 20M | tee /dev/null | wc -c; yes | head -c 20M')
      assert.equal(run.stdout.length, 20 * mebibyte + '20971520\n'.length)
      await eventually(async () => {
        assert.equal(messages(await readLog(warren, own.sandboxId)).at(-1), 'Process ended: exit status 0')
      })
      const entries = await readLog(warren, own.sandboxId)
      const leftOut = entries.filter(({ fields }) => fields.event_type === 'left_out')
      const missing = leftOut.reduce((sum, { fields }) => sum + Number(fields.bytes), 0)
      const kept = entries.filter(({ fields }) => fields.event_type === 'stdout')
      const keptBytes = kept.reduce((sum, { message }) => sum + message.length + 1, 0)
      // The last newline of each piece is not kept.
      assert.ok(Math.abs(missing + keptBytes - run.stdout.length) <= kept.length, `${missing} ${keptBytes}`)
      await own.kill()
    })

    // Under runc the kernel itself ends a process, and the sandbox sees only that it was killed.
    if (isolation === 'gvisor') {
      it('tell which process was ended when memory ran out', async () => {
        const own = await Sandbox.create('base', { ...warren.client, timeoutMs: 60_000 })
        const grow = 'python3 -c "held = []\nwhile True: held.append(bytearray(1024 * 1024))"'
        await assert.rejects(own.commands.run(grow))
        await eventually(async () => {
          const entries = await readLog(warren, own.sandboxId)
          const kill = entries.find(({ fields }) => fields.event_type === 'memory_kill')
          assert.match(
            kill?.message ?? '',
            /Memory ran out: killed process \d+ \(python3\), which held about \d+ MiB/,
          )
        })
        await own.kill()
      })
    }

    it('lose and double nothing when Warren stops, and when it crashes', async () => {
      const own = await Sandbox.create('base', { ...warren.client, timeoutMs: 300_000 })
      const count = 'for i in $(seq 1 400); do echo "number $i"; sleep 0.03; done'
      const counting = await own.commands.run(count, { background: true, timeoutMs: 0 })
      await counting.disconnect()
      await delay(1000)
      await warren.stop()
      await delay(500)
      warren = await startWarren(isolation, { keep: true })
      await delay(1000)
      await warren.crash()
      warren = await startWarren(isolation, { keep: true })
      await eventually(async () => {
        const last = messages(await readLog(warren, own.sandboxId)).at(-1)
        assert.equal(last, 'Process ended: exit status 0')
      }, 60_000)
      const told = (await readLog(warren, own.sandboxId))
        .filter(({ fields }) => fields.event_type === 'stdout')
        .flatMap(({ message }) => message.split('\n'))
      assert.deepEqual(
        told,
        Array.from({ length: 400 }, (_, i) => `number ${i + 1}`),
      )
      const again = await Sandbox.connect(own.sandboxId, warren.client)
      await again.kill()
    })
  })

  describe(`metrics, ${isolation}`, () => {
    let warren: Warren
    let sandbox: current.Sandbox
    before(async () => {
      warren = await startWarren(isolation)
      sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 600_000 })
    })
    after(() => warren?.stop())

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
      await eventually(async () => assert.ok((await sandbox.getMetrics()).length >= 2), 30_000)
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

    it('follow memory that is taken and given back', async () => {
      const [idle] = (await sandbox.getMetrics()).slice(-1)
      const hold = `python3 -c "
import time
held = bytearray(200 * 1024 * 1024)
for at in range(0, len(held), 4096): held[at] = 1
time.sleep(1000)"`
      const holder = await sandbox.commands.run(hold, { background: true, timeoutMs: 0 })
      await eventually(async () => {
        const [held] = (await sandbox.getMetrics()).slice(-1)
        near(held!.memUsed - idle!.memUsed, 200 * mebibyte, 0.15, 'held')
        near((await inside()).mem_used!, held!.memUsed, 0.15, 'from inside')
      }, 40_000)
      await holder.kill()
      await eventually(async () => {
        const [freed] = (await sandbox.getMetrics()).slice(-1)
        assert.ok(freed!.memUsed < idle!.memUsed + 20 * mebibyte, `${freed!.memUsed}`)
      }, 30_000)
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

    it('follow CPU time, as much as the machine gave', async () => {
      const spin = 'python3 -c "\nimport time\nwhile time.process_time() < 5: pass\nprint(time.time())"'
      const started = Date.now()
      await sandbox.commands.run(spin, { timeoutMs: 60_000 })
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
        assert.ok(usedMs > (isolation === 'gvisor' ? 2500 : 4500) && usedMs < 8000, `${usedMs} ms`)
      }, 30_000)
    })

    for (const version of ['2.63.0', '2.45.1']) {
      it(`are read by Python ${version}, sync and async`, () => {
        const { sync, later } = JSON.parse(printedBy(warren, version, 'metrics.py', sandbox.sandboxId))
        assert.ok(sync.length > 0)
        assert.deepEqual(later.slice(0, sync.length), sync)
      })
    }

    it('are shown by the command line, beside the sandbox itself', async () => {
      const id = sandbox.sandboxId
      const shown = await cli(warren, 'sandbox', 'metrics', id)
      assert.match(shown, /CPU: +[\d.]+% +\/ +2 Cores \| Memory: +\d+ \/ \d+ +MiB \| Disk: +\d+ \/ \d+ +MiB/)
      assert.match(await cli(warren, 'sandbox', 'list'), new RegExp(id))
      assert.match(await cli(warren, 'sandbox', 'info', id), new RegExp(id))
      assert.equal(
        await cli(warren, 'sandbox', 'exec', id, 'echo from-the-command-line'),
        'from-the-command-line\n',
      )
      assert.match(await cli(warren, 'sandbox', 'kill', id), /has been killed/)
      assert.equal(await sandbox.isRunning(), false)
      assert.match(await cli(warren, 'sandbox', 'logs', id), /Sandbox ended: killed/)
    })
  })
}
