import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { AppError } from '../../../lib/app-error.ts'
import { type Clock, ManualClock, systemClock } from '../../../lib/clock.ts'
import { silentLog } from '../../../lib/log.ts'
import type { AgentPort } from '../../ports/agent.ts'
import type { LogEntry, LogStore, NumberedLogEntry } from '../../ports/logs.ts'
import { type Route, RouteTable } from '../network/routes.ts'
import { LogCollector } from './log-collector.ts'

const entry = (message: string): LogEntry => ({ at: 1, level: 'info', message, fields: {} })

/** An agent that tells what it is given, and can break off. */
class TalkingAgent implements AgentPort {
  run = () => assert.fail('nothing is run here')
  writeFile = () => assert.fail('nothing is written here')
  readonly #entries: NumberedLogEntry[] = []
  readonly asked: { after: number; token: string }[] = []
  #wake = () => {}
  #broken: Error | undefined

  say(...messages: string[]): void {
    for (const message of messages)
      this.#entries.push({ sequence: this.#entries.length + 1, ...entry(message) })
    this.#wake()
  }

  breakOff(failure = new Error('connection reset')): void {
    this.#broken = failure
    this.#wake()
  }

  async *followLogs(_: unknown, token: string, after: number, signal: AbortSignal) {
    this.asked.push({ after, token })
    for (let sent = after; !signal.aborted; ) {
      const news = this.#entries.slice(sent)
      sent = this.#entries.length
      if (news.length > 0) yield news
      const failure = this.#broken
      this.#broken = undefined
      if (failure) throw failure
      if (sent < this.#entries.length) continue
      await new Promise<void>((resolve) => {
        this.#wake = resolve
        signal.addEventListener('abort', () => resolve(), { once: true })
      })
    }
  }

  async initialize() {}
  async isHealthy() {
    return true
  }
  async findOtherNetworks() {
    return 'none' as const
  }
}

class MemoryLogs implements LogStore {
  readonly written: NumberedLogEntry[] = []
  #onAppend = () => {}

  async append(_: string, entries: readonly NumberedLogEntry[]) {
    this.written.push(...entries)
    this.#onAppend()
  }

  async lastSequence() {
    return Math.max(0, ...this.written.map(({ sequence }) => sequence))
  }

  get messages() {
    return this.written.map(({ message }) => message)
  }

  async untilWritten(count: number): Promise<void> {
    while (this.written.length < count) {
      await new Promise<void>((resolve) => {
        this.#onAppend = resolve
      })
    }
  }

  async read() {
    return []
  }
  async newest() {
    return []
  }
  async prune() {}
}

const route = (runID: string): Route => ({
  sandboxID: 'i1',
  runID,
  teamID: 'team',
  start: runID,
  agentToken: 'token',
  trafficToken: null,
  endpoint: (port) => ({ host: 'sandbox', port }),
})

function open(clock: Clock = systemClock) {
  const [agent, logs, routes] = [new TalkingAgent(), new MemoryLogs(), new RouteTable()]
  const warnings: string[] = []
  const log = { ...silentLog, warn: (_: object, message: string) => void warnings.push(message) }
  const collect = () => new LogCollector({ agent, logs, routes, clock, log })
  return { agent, logs, routes, warnings, collect, collector: collect() }
}

class CountingClock extends ManualClock {
  waits = 0

  override after(delayMs: number, action: () => void): () => void {
    this.waits++
    return super.after(delayMs, action)
  }
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve))
}

describe('collecting the log of a sandbox', () => {
  it("reads entries from the agent with the sandbox's token, and stores them", async () => {
    const { agent, logs, routes, collector } = open()
    agent.say('one')
    routes.set(route('r1'))
    await logs.untilWritten(1)
    agent.say('two', 'three')
    await logs.untilWritten(3)
    assert.deepEqual(logs.messages, ['one', 'two', 'three'])
    assert.deepEqual(agent.asked, [{ after: 0, token: 'token' }])
    await collector.close()
  })

  it('continues after the last entry when a connection breaks', async () => {
    const { agent, logs, routes, collector } = open()
    routes.set(route('r1'))
    agent.say('one', 'two')
    await logs.untilWritten(2)
    agent.breakOff()
    agent.say('three')
    await logs.untilWritten(3)
    assert.deepEqual(logs.messages, ['one', 'two', 'three'])
    await collector.close()
  })

  it('loses and repeats nothing over a restart', async () => {
    const { agent, logs, routes, collector, collect } = open()
    routes.set(route('r1'))
    agent.say('one')
    await logs.untilWritten(1)
    await collector.close()
    agent.say('meanwhile')
    routes.remove('i1', 'r1')
    const again = collect()
    routes.set(route('r1'))
    await logs.untilWritten(2)
    assert.deepEqual(logs.messages, ['one', 'meanwhile'])
    assert.equal(agent.asked.at(-1)!.after, 1)
    await again.close()
  })

  it('reads the last entries of an ending sandbox before it writes the end', async () => {
    const { agent, logs, routes, collector } = open()
    collector.append('i1', entry('created'))
    routes.set(route('r1'))
    agent.say('one')
    await logs.untilWritten(2)
    routes.remove('i1', 'r1')
    agent.say('last words')
    collector.append('i1', entry('ended'))
    await logs.untilWritten(4)
    assert.deepEqual(logs.messages, ['created', 'one', 'last words', 'ended'])
    await collector.close()
  })

  it('follows the next run only after the previous one has been read', async () => {
    const { agent, logs, routes, collector } = open()
    routes.set(route('r1'))
    agent.say('one')
    await logs.untilWritten(1)
    routes.remove('i1', 'r1')
    routes.set(route('r2'))
    agent.say('two')
    await logs.untilWritten(2)
    agent.say('three')
    await logs.untilWritten(3)
    assert.deepEqual(logs.messages, ['one', 'two', 'three'])
    await collector.close()
  })

  it('cuts off an agent that breaks the rules, logs it once, and returns less and less often', async () => {
    const clock = new CountingClock()
    const { agent, logs, routes, warnings, collector } = open(clock)
    routes.set(route('r1'))
    await until(() => agent.asked.length === 1)
    const pausesMs = [1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000]
    for (const [round, pauseMs] of pausesMs.entries()) {
      agent.breakOff(new AppError('internal', 'the agent sent a log line that is no entry'))
      await until(() => clock.waits === round + 1)
      clock.advance(pauseMs - 1)
      // A try that came too early would be made by now.
      await new Promise((resolve) => setImmediate(resolve))
      assert.equal(agent.asked.length, round + 1)
      clock.advance(1)
      await until(() => agent.asked.length === round + 2)
    }
    assert.deepEqual(logs.messages, [
      'The log was cut off; entries may be missing from here on: the agent sent a log line that is no entry',
    ])
    assert.equal(warnings.length, 1)
    agent.say('good again')
    await logs.untilWritten(2)
    await collector.close()
  })

  it('returns soon to an agent that behaved for a while, or whose connection merely broke', async () => {
    const clock = new CountingClock()
    const { agent, logs, routes, collector } = open(clock)
    routes.set(route('r1'))
    await until(() => agent.asked.length === 1)
    const breakAndWait = async (pauseMs: number) => {
      const { length } = agent.asked
      agent.breakOff()
      await until(() => clock.waits === length)
      clock.advance(pauseMs)
      await until(() => agent.asked.length === length + 1)
    }
    for (const pauseMs of [1000, 2000, 4000, 8000, 10_000, 10_000]) await breakAndWait(pauseMs)
    clock.advance(61_000)
    await breakAndWait(1000)
    assert.deepEqual(logs.messages, [], 'a broken connection is nothing to tell')
    await collector.close()
  })
})
