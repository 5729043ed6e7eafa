/** What happened in a sandbox, read by the unmodified clients and command line, on both runtimes. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Sandbox, SandboxError, SandboxNotFoundError } from 'e2b'
import { delay } from '../../src/lib/clock.ts'
import { e2b } from '../support/e2b-cli.ts'
import { eventually } from '../support/eventually.ts'
import { messages, readLog } from '../support/read-log.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

const mebibyte = 1024 * 1024

for (const isolation of isolations) {
  describe(`logs, ${isolation}`, () => {
    let warren: Warren
    let sandbox: Sandbox
    before(async () => {
      warren = await joinWarren(isolation)
      const envs = { SECRET: 'value-of-the-secret' }
      sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000, envs })
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

    it('contain the life of the sandbox, its processes with their output, and its files', async () => {
      const entries = await readLog(warren, sandbox.sandboxId)
      assert.deepEqual(
        entries.map(({ level, message, fields }) => [level, fields.event_type, message]),
        [
          ['info', 'sandbox_created', 'Sandbox created from template base for 3600 s'],
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

    it('contain no secrets', async () => {
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

    it('cannot be read from the agent, neither through the edge nor from inside', async () => {
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
        headers,
        key: null,
        body: { name: 'k' },
      })
      const { key } = (await keyed.json()) as { key: string }
      const get = async (path: string) => (await warren.api(path, { key })).json()
      const id = sandbox.sandboxId
      assert.deepEqual(await get(`/sandboxes/${id}/logs`), { logs: [], logEntries: [] })
      assert.deepEqual(await get(`/v2/sandboxes/${id}/logs`), { logs: [] })
      assert.deepEqual(await get(`/sandboxes/${id}/metrics`), [])
      assert.deepEqual(await get(`/sandboxes/metrics?sandbox_ids=${id}`), { sandboxes: {} })
    })

    it('exist after the sandbox has ended, to its last entry', async () => {
      const own = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      await own.commands.run('echo last words')
      await own.kill()
      await eventually(async () => {
        const lines = messages(await readLog(warren, own.sandboxId))
        assert.deepEqual(lines.slice(-3), [
          ...['last words', 'Process ended: exit status 0', 'Sandbox ended: killed'],
        ])
      })
    })

    it('contain the end of a sandbox whose agent was killed inside, and its streams break at once', async () => {
      const own = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      const ticked = Promise.withResolvers<void>()
      const streaming = own.commands.run('echo tick; exec sleep 600', {
        timeoutMs: 0,
        onStdout: () => ticked.resolve(),
      })
      const broken = assert.rejects(streaming, SandboxError)
      await ticked.promise
      await assert.rejects(own.commands.run('kill -9 -1', { user: 'root' }), SandboxError)
      await broken
      await eventually(async () => {
        const last = (await readLog(warren, own.sandboxId)).at(-1)
        assert.equal(last?.message, 'Sandbox ended: its processes crashed. Its agent was ended by SIGKILL.')
        assert.equal(last.fields.reason, 'crashed')
      })
      await assert.rejects(Sandbox.connect(own.sandboxId, warren.client), SandboxNotFoundError)
    })

    it('stay small in a flood and report what is missing', async () => {
      const own = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      const run = await own.commands.run('yes | head -c 20M | tee /dev/null | wc -c; yes | head -c 20M')
      assert.equal(run.stdout.length, 20 * mebibyte + '20971520\n'.length)
      await eventually(async () => {
        assert.equal(messages(await readLog(warren, own.sandboxId)).at(-1), 'Process ended: exit status 0')
      })
      const entries = await readLog(warren, own.sandboxId)
      const leftOut = entries.filter(({ fields }) => fields.event_type === 'left_out')
      const missing = leftOut.reduce((sum, { fields }) => sum + Number(fields.bytes), 0)
      const lines = entries.filter(({ fields }) => fields.event_type === 'stdout')
      const lineBytes = lines.reduce((sum, { message }) => sum + message.length + 1, 0)
      // On a very busy machine the log is not read in time, and the log reports dropped entries.
      const dropped = entries.filter(({ fields }) => fields.event_type === 'dropped')
      const droppedPieces = dropped.reduce((sum, { fields }) => sum + Number(fields.entries), 0)
      // The last newline of each piece is not kept.
      const lost = Math.abs(missing + lineBytes - run.stdout.length)
      assert.ok(lost <= lines.length + droppedPieces * 4096, `${missing} ${lineBytes} ${droppedPieces}`)
      await own.kill()
    })

    // Under runc the kernel itself ends a process, and the sandbox sees only that it was killed.
    if (isolation === 'gvisor') {
      it('contain the process that was ended when memory ran out', async () => {
        const own = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
        // Not so fast that the host ends the whole sandbox where a busy machine keeps the agent from looking.
        const each = 'held.append(bytearray(1024 * 1024)); time.sleep(0.002)'
        const grow = `python3 -c "import time\nheld = []\nwhile True: ${each}"`
        await assert.rejects(own.commands.run(grow))
        await eventually(async () => {
          const entries = await readLog(warren, own.sandboxId)
          const kill = entries.find(({ fields }) => fields.event_type === 'memory_kill')
          assert.match(
            kill?.message ?? messages(entries).join('\n'),
            /Memory ran out: killed process \d+ \(python3\), which held about \d+ MiB/,
          )
        })
        await own.kill()
      })
      return
    }

    // How logs are read does not depend on the isolation.
    it('are shown by the command line, whole and filtered', async () => {
      const id = sandbox.sandboxId
      const whole = await e2b(warren, 'sandbox', 'logs', id)
      assert.match(whole, /INFO {2}\{.*message: 'töne'/)
      assert.match(whole, /ERROR \{.*message: 'bad'/)
      const errors = await e2b(warren, 'sandbox', 'logs', id, '--level', 'ERROR', '--format', 'json')
      const parsed = errors
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
      assert.deepEqual(
        parsed.map(({ message, logger, event_type }) => [message, logger, event_type]),
        [['bad', 'process', 'stderr']],
      )
      const files = await e2b(warren, 'sandbox', 'logs', id, '--loggers', 'files')
      assert.match(files, /File written/)
      assert.doesNotMatch(files, /Process started/)
    })

    it('are followed by the command line until the sandbox ends', async () => {
      const own = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      const following = e2b(warren, 'sandbox', 'logs', own.sandboxId, '--follow')
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
  })
}
