import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { silentLog } from '../../lib/log.ts'
import type { AgentPort } from '../agent.ts'
import type { LogEntry, LogStore, NumberedLogEntry } from '../logs.ts'
import { LogCollector } from './log-collector.ts'
import { type Route, RouteTable } from './routes.ts'

const entry = (message: string): LogEntry => ({ at: 1, level: 'info', message, fields: {} })

/** An agent that tells what it is given, and can break off. */
class TalkingAgent implements AgentPort {
  run = () => assert.fail('nothing is run here')
  writeFile = () => assert.fail('nothing is written here')
  readonly #entries: NumberedLogEntry[] = []
  readonly asked: { after: number; token: string }[] = []
  #wake = () => {}
  #broken = false

  say(...messages: string[]): void {
    for (const message of messages)
      this.#entries.push({ sequence: this.#entries.length + 1, ...entry(message) })
    this.#wake()
  }

  breakOff(): void {
    this.#broken = true
    this.#wake()
  }

  async *followLogs(_: unknown, token: string, after: number, signal: AbortSignal) {
    this.asked.push({ after, token })
    for (let told = after; !signal.aborted; ) {
      const news = this.#entries.slice(told)
      told = this.#entries.length
      if (news.length > 0) yield news
      if (this.#broken) {
        this.#broken = false
        throw new Error('connection reset')
      }
      if (told < this.#entries.length) continue
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
}

class MemoryLogs implements LogStore {
  readonly kept: NumberedLogEntry[] = []
  #onAppend = () => {}

  async append(_: string, entries: readonly NumberedLogEntry[]) {
    this.kept.push(...entries)
    this.#onAppend()
  }

  async lastSequence() {
    return Math.max(0, ...this.kept.map(({ sequence }) => sequence))
  }

  get messages() {
    return this.kept.map(({ message }) => message)
  }

  async untilKept(count: number): Promise<void> {
    while (this.kept.length < count) {
      await new Promise<void>((resolve) => {
        this.#onAppend = resolve
      })
    }
  }

  async read() {
    return []
  }
  async prune() {}
}

const route = (runID: string): Route => ({
  ...{ sandboxID: 'i1', runID, agentToken: 'token', trafficToken: null },
  endpoint: (port) => ({ host: 'sandbox', port }),
})

function open() {
  const [agent, logs, routes] = [new TalkingAgent(), new MemoryLogs(), new RouteTable()]
  const collect = () => new LogCollector({ agent, logs, routes, log: silentLog })
  return { agent, logs, routes, collect, collector: collect() }
}

describe('collecting the log of a sandbox', () => {
  it('keeps what the agent tells, asking with its token', async () => {
    const { agent, logs, routes, collector } = open()
    agent.say('one')
    routes.set(route('r1'))
    await logs.untilKept(1)
    agent.say('two', 'three')
    await logs.untilKept(3)
    assert.deepEqual(logs.messages, ['one', 'two', 'three'])
    assert.deepEqual(agent.asked, [{ after: 0, token: 'token' }])
    await collector.close()
  })

  it('goes on after the last entry when a connection breaks', async () => {
    const { agent, logs, routes, collector } = open()
    routes.set(route('r1'))
    agent.say('one', 'two')
    await logs.untilKept(2)
    agent.breakOff()
    agent.say('three')
    await logs.untilKept(3)
    assert.deepEqual(logs.messages, ['one', 'two', 'three'])
    await collector.close()
  })

  it('loses and doubles nothing over a restart', async () => {
    const { agent, logs, routes, collector, collect } = open()
    routes.set(route('r1'))
    agent.say('one')
    await logs.untilKept(1)
    await collector.close()
    agent.say('meanwhile')
    routes.remove('i1', 'r1')
    const again = collect()
    routes.set(route('r1'))
    await logs.untilKept(2)
    assert.deepEqual(logs.messages, ['one', 'meanwhile'])
    assert.equal(agent.asked.at(-1)!.after, 1)
    await again.close()
  })

  it('still reads what an ending sandbox had told, and only then tells the end', async () => {
    const { agent, logs, routes, collector } = open()
    collector.tell('i1', entry('created'))
    routes.set(route('r1'))
    agent.say('one')
    await logs.untilKept(2)
    routes.remove('i1', 'r1')
    agent.say('last words')
    collector.tell('i1', entry('ended'))
    await logs.untilKept(4)
    assert.deepEqual(logs.messages, ['created', 'one', 'last words', 'ended'])
    await collector.close()
  })

  it('follows the next run only when the last one has been read', async () => {
    const { agent, logs, routes, collector } = open()
    routes.set(route('r1'))
    agent.say('one')
    await logs.untilKept(1)
    routes.remove('i1', 'r1')
    routes.set(route('r2'))
    agent.say('two')
    await logs.untilKept(2)
    agent.say('three')
    await logs.untilKept(3)
    assert.deepEqual(logs.messages, ['one', 'two', 'three'])
    await collector.close()
  })
})
