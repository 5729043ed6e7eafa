import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { ManualClock } from '../../lib/clock.ts'
import { silentLog } from '../../lib/log.ts'
import { LogFiles } from '../../logs/log-files.ts'
import type { LogEntry, LogQuery, LogStore, NumberedLogEntry } from '../ports/logs.ts'
import { BuildLog } from './build-log.ts'

function openLog() {
  const clock = new ManualClock(1000)
  const written = new Map<string, NumberedLogEntry[]>()
  const queries: LogQuery[] = []
  const logs: LogStore & { fails: boolean } = {
    fails: false,
    async append(id, entries) {
      if (logs.fails) throw new Error('the disk is full')
      const known = written.get(id) ?? []
      written.set(id, known)
      known.push(...entries)
    },
    async read(id, query): Promise<LogEntry[]> {
      queries.push(query)
      return (written.get(id) ?? []).map(({ sequence: _, ...entry }) => entry)
    },
    newest: async () => [],
    lastSequence: async () => 0,
    prune: async () => {},
  }
  const buildLog = new BuildLog({ logs, maxBytes: 1e7, clock, log: silentLog })
  return { clock, written, queries, logs, buildLog }
}

const line = (message: string, step: string | null = null) => ({ level: 'info', message, step }) as const
const messagesOf = (entries: LogEntry[]) => entries.map(({ message }) => message)

describe('the log of a build', () => {
  it('can be read at once while it runs, and from the log afterwards', async () => {
    const { buildLog, queries } = openLog()
    buildLog.add('b', line('one'))
    buildLog.add('b', line('two', '1'))
    const running = structuredClone(await buildLog.read('b'))
    assert.deepEqual(messagesOf(running), ['one', 'two'])
    assert.equal(queries.length, 0)
    await buildLog.end('b')
    assert.deepEqual(await buildLog.read('b'), running)
    assert.equal(queries.length, 1)
  })

  it('has its lines in order, each at a time of its own', async () => {
    const { buildLog, clock } = openLog()
    buildLog.add('b', line('one'))
    buildLog.add('b', line('two'))
    clock.advance(500)
    buildLog.add('b', line('three'))
    const entries = await buildLog.read('b')
    assert.deepEqual(
      entries.map(({ at }) => at),
      [1000, 1001, 1500],
    )
  })

  it('names the step of each line', async () => {
    const { buildLog } = openLog()
    buildLog.add('b', line('before'))
    buildLog.add('b', line('in the base', 'base'))
    const entries = await buildLog.read('b')
    assert.deepEqual(
      entries.map(({ fields }) => fields),
      [{}, { step: 'base' }],
    )
  })

  it('cuts an endless line', async () => {
    const { buildLog } = openLog()
    buildLog.add('b', line('x'.repeat(10_000)))
    assert.equal((await buildLog.read('b'))[0]?.message.length, 8192)
  })

  it('ends with a note if it is too long', async () => {
    const { buildLog } = openLog()
    for (let number = 0; number < 20_005; number++) buildLog.add('b', line(String(number)))
    const running = messagesOf(await buildLog.read('b'))
    assert.deepEqual([running.length, running.at(-2)], [20_000, '19998'])
    assert.match(running.at(-1)!, /not shown/)
    await buildLog.end('b')
    assert.deepEqual(messagesOf(await buildLog.read('b')), running)
  })

  it('is not mixed with another build', async () => {
    const { buildLog } = openLog()
    buildLog.add('a', line('of a'))
    buildLog.add('b', line('of b'))
    await buildLog.end('a')
    assert.deepEqual(messagesOf(await buildLog.read('a')), ['of a'])
    assert.deepEqual(messagesOf(await buildLog.read('b')), ['of b'])
    assert.deepEqual(await buildLog.read('c'), [])
  })

  it('is completely written when the build has ended', async () => {
    const { buildLog, written } = openLog()
    for (let number = 0; number < 50; number++) buildLog.add('b', line(String(number)))
    await buildLog.end('b')
    assert.deepEqual(
      messagesOf(written.get('b')!),
      Array.from({ length: 50 }, (_, number) => String(number)),
    )
  })

  it('does not fail the build when it cannot be written', async () => {
    const { buildLog, logs } = openLog()
    logs.fails = true
    buildLog.add('b', line('late'))
    await new Promise((resolve) => setImmediate(resolve))
    assert.deepEqual(messagesOf(await buildLog.read('b')), ['late'])
    logs.fails = false
    buildLog.add('b', line('written'))
    await buildLog.end('b')
    assert.deepEqual(messagesOf(await buildLog.read('b')), ['late', 'written'])
  })

  it('counts the same lines while the build runs and after, however little the log keeps', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'warren-build-log-'))
    t.after(() => rmSync(folder, { recursive: true }))
    const bounds = { maxBytesPerSandbox: 50_000, maxBytesTotal: 1e7 }
    const logs = new LogFiles({ folder, ...bounds })
    const parts = { clock: new ManualClock(1000), log: silentLog }
    const buildLog = new BuildLog({ ...parts, logs, maxBytes: bounds.maxBytesPerSandbox / 2 })
    const seen: string[] = []
    const poll = async () => {
      const page = (await buildLog.read('b')).slice(seen.length, seen.length + 40)
      seen.push(...messagesOf(page))
      return page.length
    }
    for (let number = 0; number < 2000; number++) {
      buildLog.add('b', line(`line ${number} \u00e9\n`, '1'))
      if (number % 37 === 0) await poll()
    }
    const running = messagesOf(await buildLog.read('b'))
    await buildLog.end('b')
    while ((await poll()) > 0);
    assert.deepEqual(seen, running)
    assert.match(seen.at(-1)!, /not shown/)
    assert.ok(seen.length > 200 && seen.length < 400, String(seen.length))
    const restarted = new BuildLog({ ...parts, logs: new LogFiles({ folder, ...bounds }), maxBytes: 25_000 })
    assert.deepEqual(messagesOf(await restarted.read('b')), running)
  })
})
