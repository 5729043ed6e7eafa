import assert from 'node:assert/strict'
import { appendFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, utimesSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { LogLevel, NumberedLogEntry } from '../core/ports/logs.ts'
import { LogFiles } from './log-files.ts'

const time = 1_700_000_000_000

function entry(sequence: number, changes: Partial<NumberedLogEntry> = {}): NumberedLogEntry {
  return { sequence, at: time + sequence, level: 'info', message: `line ${sequence}`, fields: {}, ...changes }
}

function openFolder(sizes: { perSandbox?: number; total?: number } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-logs-'))
  const limits = { maxBytesPerSandbox: sizes.perSandbox ?? 1e6, maxBytesTotal: sizes.total ?? 1e7 }
  return {
    folder,
    logs: new LogFiles({ folder, ...limits }),
    again: () => new LogFiles({ folder, ...limits }),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  }
}

const forward = { direction: 'forward', limit: 1000 } as const
const messages = (entries: { message: string }[]) => entries.map(({ message }) => message)

describe('logs on disk', () => {
  it('are returned oldest first or newest first, up to the limit', async () => {
    using opened = openFolder()
    await opened.logs.append('ia', [entry(1), entry(2)])
    await opened.logs.append('ia', [entry(3)])
    assert.deepEqual(messages(await opened.logs.read('ia', forward)), ['line 1', 'line 2', 'line 3'])
    assert.deepEqual(messages(await opened.logs.read('ia', { direction: 'backward', limit: 2 })), [
      'line 3',
      'line 2',
    ])
    assert.deepEqual(messages(await opened.logs.read('ia', { direction: 'forward', limit: 2 })), [
      'line 1',
      'line 2',
    ])
    assert.deepEqual(await opened.logs.read('ia', { direction: 'backward', limit: 1 }), [
      { at: time + 3, level: 'info', message: 'line 3', fields: {} },
    ])
  })

  it('return their newest entries within a number of bytes, with their numbers', async () => {
    using opened = openFolder()
    const entries = [entry(1), entry(2), entry(3)]
    await opened.logs.append('ia', entries)
    const bytes = Buffer.byteLength(JSON.stringify(entry(1))) + 1
    assert.deepEqual(await opened.logs.newest('ia', 3 * bytes), entries)
    assert.deepEqual(await opened.logs.newest('ia', 3 * bytes - 1), entries.slice(1))
    assert.deepEqual(await opened.logs.newest('ib', 3 * bytes), [])
  })

  it('are filtered by time, level and text', async () => {
    using opened = openFolder()
    const levels: LogLevel[] = ['debug', 'info', 'warn', 'error']
    await opened.logs.append(
      'ia',
      levels.map((level, at) => entry(at, { level, message: `A ${level}` })),
    )
    const read = async (query: object) => messages(await opened.logs.read('ia', { ...forward, ...query }))
    assert.deepEqual(await read({ level: 'warn' }), ['A warn', 'A error'])
    assert.deepEqual(await read({ from: time + 1, before: time + 3 }), ['A info', 'A warn'])
    assert.deepEqual(await read({ search: 'bug' }), ['A debug'])
    assert.deepEqual(await read({ search: 'BUG' }), [])
  })

  it('of an unknown sandbox are empty', async () => {
    using opened = openFolder()
    assert.deepEqual(await opened.logs.read('inone', forward), [])
    assert.equal(await opened.logs.lastSequence('inone'), 0)
  })

  it('survive a restart, with their last number, even after a line that a crash cut off', async () => {
    using opened = openFolder()
    await opened.logs.append('ia', [entry(1), entry(41)])
    appendFileSync(join(opened.folder, 'ia.jsonl'), '{"sequence":42,"at":17')
    assert.equal(await opened.again().lastSequence('ia'), 41)
    assert.deepEqual(messages(await opened.again().read('ia', forward)), ['line 1', 'line 41'])
  })

  it('of a chatty sandbox lose their oldest part, never more than half of the limit', async () => {
    using opened = openFolder({ perSandbox: 20_000 })
    for (let at = 0; at < 1000; at++) await opened.logs.append('ia', [entry(at)])
    const remaining = await opened.logs.read('ia', { direction: 'forward', limit: 10_000 })
    assert.equal(remaining.at(-1)?.message, 'line 999')
    assert.ok(remaining.length > 50 && remaining.length < 1000)
    const total = readdirSync(opened.folder).reduce(
      (sum, name) => sum + statSync(join(opened.folder, name)).size,
      0,
    )
    assert.ok(total <= 20_000 + 200)
  })

  it('of the longest silent sandboxes are removed first if there are too many', async () => {
    using opened = openFolder({ perSandbox: 4000, total: 2300 })
    for (const id of ['iold', 'inew']) {
      for (let at = 0; at < 30; at++) await opened.logs.append(id, [entry(at)])
    }
    for (const name of readdirSync(opened.folder).filter((file) => file.startsWith('iold'))) {
      utimesSync(join(opened.folder, name), 1, 1)
    }
    for (let at = 0; at < 100; at++) await opened.logs.append('inew', [entry(at)])
    assert.deepEqual(await opened.logs.read('iold', forward), [])
    assert.notDeepEqual(await opened.logs.read('inew', forward), [])
  })

  it('older than the given time are removed', async () => {
    using opened = openFolder()
    await opened.logs.append('ia', [entry(1)])
    utimesSync(join(opened.folder, 'ia.jsonl'), 1, 1)
    await opened.logs.append('ib', [entry(1)])
    await opened.logs.prune(time)
    assert.deepEqual(readdirSync(opened.folder), ['ib.jsonl'])
  })

  it('are returned whole with lines longer than a read, and with characters of several bytes', async () => {
    using opened = openFolder()
    const long = 'ä'.repeat(100_000)
    await opened.logs.append('ia', [entry(1), entry(2, { message: long }), entry(3)])
    assert.deepEqual(messages(await opened.logs.read('ia', forward)), ['line 1', long, 'line 3'])
  })

  it('are readable by their owner only', async () => {
    using opened = openFolder()
    await opened.logs.append('ia', [entry(1)])
    assert.equal(statSync(join(opened.folder, 'ia.jsonl')).mode & 0o077, 0)
  })

  it('are found again after a crash that left half a line', async () => {
    using opened = openFolder()
    await opened.logs.append('ia', [entry(1)])
    appendFileSync(join(opened.folder, 'ia.jsonl'), '{"sequence":2,"at":1')
    const again = opened.again()
    assert.equal(await again.lastSequence('ia'), 1)
    await again.append('ia', [entry(2), entry(3)])
    assert.deepEqual(messages(await again.read('ia', forward)), ['line 1', 'line 2', 'line 3'])
  })

  it('distinguish entries of the control plane from those of the agent', async () => {
    using opened = openFolder()
    await opened.logs.append('ia', [entry(0, { message: 'created' })])
    assert.equal(await opened.logs.lastSequence('ia'), 0)
    await opened.logs.append('ia', [entry(7), entry(0, { message: 'ended' })])
    assert.equal(await opened.logs.lastSequence('ia'), 7)
  })

  it('stay within the total even if no single sandbox writes much', async () => {
    using opened = openFolder({ perSandbox: 1e6, total: 20_000 })
    for (let sandbox = 0; sandbox < 60; sandbox++) {
      await opened.logs.append(`i${sandbox}`, [entry(1, { message: 'x'.repeat(1000) })])
    }
    const sizes = readdirSync(opened.folder).map((name) => statSync(join(opened.folder, name)).size)
    const total = sizes.reduce((sum, size) => sum + size, 0)
    assert.ok(total < 22_000, `${total} bytes`)
  })

  it('of a sandbox that writes again are not removed for its long silence', async () => {
    using opened = openFolder()
    for (let round = 0; round < 100; round++) {
      const id = `i${round}`
      await opened.logs.append(id, [entry(1)])
      utimesSync(join(opened.folder, `${id}.jsonl`), 1, 1)
      const pruned = opened.logs.prune(time)
      for (let turns = 0; turns < round % 10; turns++) await turn()
      await Promise.all([pruned, opened.logs.append(id, [entry(2)])])
      assert.equal(messages(await opened.logs.read(id, forward)).at(-1), 'line 2')
      assert.equal(await opened.again().lastSequence(id), 2)
    }
  })

  it('do not count as absent if the disk fails', async () => {
    using opened = openFolder()
    // A folder in the place of the file can be opened and not be read.
    mkdirSync(join(opened.folder, 'ia.jsonl'))
    await assert.rejects(opened.logs.lastSequence('ia'), { code: 'EISDIR' })
    await assert.rejects(opened.logs.append('ia', [entry(1)]), { code: 'EISDIR' })
  })
})
