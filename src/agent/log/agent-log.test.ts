import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ManualClock } from '../../lib/clock.ts'
import { AgentLog } from './agent-log.ts'

type Entry = { sequence: number; at: number; message: string; fields: Record<string, string> }

const fields = { logger: 'test', event_type: 'test' }

function openLog(clock = new ManualClock()) {
  const log = new AgentLog(clock)
  return { clock, log, add: (message: string) => log.add('info', message, fields) }
}

function entriesAfter(log: AgentLog, after = 0): Entry[] {
  const all: Entry[] = []
  for (let last = after; ; ) {
    const batch = log.readAfter(last, 64 * 1024)
    if (!batch) return all
    last = batch.last
    all.push(
      ...batch.text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    )
  }
}

const messages = (entries: Entry[]) => entries.map(({ message }) => message)

describe('the log of the agent', () => {
  it('numbers entries without a gap, and returns those after any number', () => {
    const { log, add } = openLog()
    for (const message of ['one', 'two', 'three']) add(message)
    const [one, two, three] = entriesAfter(log)
    assert.deepEqual([two!.sequence, three!.sequence], [one!.sequence + 1, one!.sequence + 2])
    assert.deepEqual(messages(entriesAfter(log, two!.sequence)), ['three'])
    assert.deepEqual(entriesAfter(log, three!.sequence), [])
  })

  it('gives no two entries the same time', () => {
    const { log, add, clock } = openLog()
    for (let count = 0; count < 5; count++) add('at once')
    clock.advance(1000)
    add('later')
    const times = entriesAfter(log).map(({ at }) => at - clock.now() + 1000)
    assert.deepEqual(times, [0, 1, 2, 3, 4, 1000])
  })

  it('continues its numbers in the next run of a sandbox, whatever was read of the earlier run', () => {
    const clock = new ManualClock()
    const before = openLog(clock)
    for (let count = 0; count < 50; count++) before.add('before')
    const last = entriesAfter(before.log).at(-1)!.sequence
    clock.advance(1000)
    const next = openLog(clock)
    next.add('next')
    assert.deepEqual(messages(entriesAfter(next.log, last)), ['next'])
  })

  it('returns everything to a reader whose number is from another run', () => {
    const { log, add } = openLog()
    add('one')
    assert.deepEqual(messages(entriesAfter(log, Number.MAX_SAFE_INTEGER)), ['one'])
  })

  it('keeps half a mebibyte and says how many entries it dropped', () => {
    const { log, add, clock } = openLog()
    for (let count = 0; count < 1000; count++) {
      clock.advance(1)
      add(`${count} ${'x'.repeat(4000)}`)
    }
    const entries = entriesAfter(log)
    const [dropped, oldest] = entries
    assert.equal(dropped!.fields.event_type, 'dropped')
    assert.equal(Number(dropped!.fields.entries), 1000 - (entries.length - 1))
    assert.equal(dropped!.sequence, oldest!.sequence - 1)
    const bytes = entries.reduce((sum, entry) => sum + JSON.stringify(entry).length, 0)
    assert.ok(bytes > 400 * 1024 && bytes < 513 * 1024, `${bytes} bytes`)
  })

  it('drops entries that come too fast, and reports their number a second later', () => {
    const { log, add, clock } = openLog()
    for (let count = 0; count < 3000; count++) add('fast')
    assert.equal(entriesAfter(log).length, 2001)
    clock.advance(1000)
    const entry = entriesAfter(log).at(-1)!
    assert.deepEqual([entry.fields.event_type, entry.fields.entries], ['left_out', '999'])
    clock.advance(2000)
    add('in time')
    assert.equal(entriesAfter(log).at(-1)!.message, 'in time')
  })

  it('cuts long texts, not through a character', () => {
    const { log, add } = openLog()
    add(`${'x'.repeat(4095)}😀 and more`)
    assert.equal(entriesAfter(log)[0]!.message, `${'x'.repeat(4095)}…`)
  })

  it('lets output come in a burst, then at a pace', () => {
    const { log, clock } = openLog()
    let accepted = 0
    while (log.takeOutput(4096)) accepted += 4096
    assert.equal(accepted, 256 * 1024)
    clock.advance(31)
    assert.equal(log.takeOutput(4096), false)
    clock.advance(1)
    assert.equal(log.takeOutput(4096), true)
  })
})
