import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ManualClock } from '../../lib/clock.ts'
import { AgentLog } from './agent-log.ts'
import { logFailedStart, ProcessLog } from './process-log.ts'

const started = { pid: 7, cmd: '/bin/sh', args: ['-c', 'x'], user: 'user', cwd: '/tmp', tag: undefined }

function startProcess() {
  const clock = new ManualClock()
  const log = new AgentLog(clock)
  return { clock, log, process: new ProcessLog(log, started) }
}

type Entry = { level: string; message: string; fields: Record<string, string> }

function entriesOf(log: AgentLog): Entry[] {
  const text = log.readAfter(0, Number.POSITIVE_INFINITY)!.text
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}

const shown = ({ level, message, fields }: Entry) => [level, fields.event_type, message]

describe('the log of a process', () => {
  it('has its start, its output and its end', () => {
    const { log, process } = startProcess()
    process.output('stdout', Buffer.from('out\n'))
    process.output('stderr', Buffer.from('bad\n'))
    process.output('pty', Buffer.from('$ \r\n'))
    process.ended(3, null)
    const entries = entriesOf(log)
    assert.deepEqual(entries.map(shown), [
      ['info', 'process_start', 'Process started: /bin/sh -c x'],
      ['info', 'stdout', 'out'],
      ['error', 'stderr', 'bad'],
      ['info', 'pty', '$ '],
      ['info', 'process_end', 'Process ended: exit status 3'],
    ])
    assert.deepEqual(entries[0]!.fields, {
      logger: 'process',
      event_type: 'process_start',
      pid: '7',
      cmd: '/bin/sh',
      user: 'user',
      cwd: '/tmp',
    })
    assert.equal(entries.at(-1)!.fields.exit_code, '3')
  })

  it('names the signal that ended it', () => {
    const { log, process } = startProcess()
    process.ended(null, 'SIGKILL')
    assert.deepEqual(entriesOf(log).at(-1)!.fields.signal, 'SIGKILL')
  })

  it('joins characters that come in parts, each output by itself', () => {
    const { log, process } = startProcess()
    const bytes = Buffer.from('ä€😀')
    for (const byte of bytes) {
      process.output('stdout', Buffer.of(byte))
      process.output('stderr', Buffer.of(byte))
    }
    const text = (name: string) =>
      entriesOf(log)
        .filter(({ fields }) => fields.event_type === name)
        .map(({ message }) => message)
        .join('')
    assert.deepEqual([text('stdout'), text('stderr')], ['ä€😀', 'ä€😀'])
  })

  it('shows an unfinished character at the end', () => {
    const { log, process } = startProcess()
    process.output('stdout', Buffer.from('€').subarray(0, 2))
    process.ended(0, null)
    assert.deepEqual(
      entriesOf(log).map(({ message }) => message),
      ['Process started: /bin/sh -c x', '�', 'Process ended: exit status 0'],
    )
  })

  it('cuts output into pieces of 4 KiB', () => {
    const { log, process } = startProcess()
    process.output('stdout', Buffer.alloc(10_000, 'x'))
    assert.deepEqual(
      entriesOf(log)
        .slice(1)
        .map(({ message }) => message.length),
      [4096, 4096, 1808],
    )
  })

  it('drops one stretch of a flood, reports its size, and then continues', () => {
    const { log, process, clock } = startProcess()
    for (let count = 0; count < 10; count++) process.output('stdout', Buffer.alloc(64 * 1024, 'x'))
    clock.advance(500)
    process.output('stdout', Buffer.from('within the gap'))
    clock.advance(500)
    process.output('stdout', Buffer.from('after it'))
    process.ended(0, null)
    const entries = entriesOf(log)
    assert.equal(entries.filter(({ fields }) => fields.event_type === 'stdout').length, 64 + 1)
    assert.deepEqual(entries.slice(-3).map(shown), [
      ['warn', 'left_out', `${6 * 64 * 1024 + 14} bytes of output were left out here: too much at once`],
      ['info', 'stdout', 'after it'],
      ['info', 'process_end', 'Process ended: exit status 0'],
    ])
  })

  it('reports the dropped output before the end', () => {
    const { log, process } = startProcess()
    process.output('stdout', Buffer.alloc(300 * 1024, 'x'))
    process.ended(0, null)
    const events = entriesOf(log).map(({ fields }) => fields.event_type)
    assert.deepEqual(events.slice(-2), ['left_out', 'process_end'])
  })

  it('does not let a flood of one process silence another', () => {
    const { log, process, clock } = startProcess()
    const other = new ProcessLog(log, { ...started, pid: 8 })
    process.output('stdout', Buffer.alloc(1024 * 1024, 'x'))
    clock.advance(100)
    process.output('stdout', Buffer.alloc(1024 * 1024, 'x'))
    other.output('stdout', Buffer.from('heard'))
    assert.equal(entriesOf(log).at(-1)!.message, 'heard')
  })

  it('has a start that failed', () => {
    const { log } = startProcess()
    logFailedStart(log, { cmd: 'nothing', args: [], user: 'user' }, new Error('no such file'))
    assert.deepEqual(shown(entriesOf(log).at(-1)!), [
      ...['error', 'process_start_failed', 'Process not started: nothing: no such file'],
    ])
  })
})
