import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { suite, test } from 'node:test'
import { begin, endOf, envelope, shell, start, token, useAgent } from '../agent-suite.ts'
import type { EventReader, ProcessEventInit } from './events.ts'
import { RunningProcess } from './running-process.ts'

const agent = useAgent()
const mebibyte = 1024 * 1024
const headers = { 'content-type': 'application/connect+json', 'x-access-token': token }

/** How much memory this process, with agent and client in it, takes more at any time while `work` runs. */
async function growthDuring(work: (look: () => void) => Promise<void>): Promise<number> {
  const before = process.memoryUsage.rss()
  let max = before
  await work(() => {
    max = Math.max(max, process.memoryUsage.rss())
  })
  return max - before
}

suite('a flood of output', () => {
  test('is drained in little memory if nobody reads it, and its producer continues', async () => {
    const done = join(agent.folder, 'drained')
    const { pid, stream } = await begin(
      agent,
      shell(`read x; head -c 100000000 /dev/zero; echo done > ${done}; read y`, { stdin: true }),
    )
    await stream.return(undefined)
    const input = { process: { pid }, input: { stdin: Buffer.from('\n').toString('base64') } }
    const grown = await growthDuring(async (look) => {
      await agent.unary('process.Process/SendInput', input)
      while (!(await agent.run(`cat ${done} 2>&1`)).stdout.startsWith('done')) look()
    })
    assert.ok(grown < 100 * mebibyte, `grew by ${Math.round(grown / mebibyte)} MiB`)
    await agent.unary('process.Process/SendInput', input)
  })

  test('uses little memory for each of many readers that stop', async () => {
    const counter = join(agent.folder, 'held')
    const loop = `i=0; while [ $i -lt 100 ]; do head -c 262144 /dev/zero; i=$((i+1)); echo $i > ${counter}; done`
    const { pid, stream } = await begin(agent, shell(`read x; ${loop}`, { stdin: true }))
    const readers = await Promise.all(
      Array.from({ length: 20 }, () =>
        agent.open('POST', '/process.Process/Connect', headers, envelope({ process: { pid } })),
      ),
    )
    const grown = await growthDuring(async (look) => {
      await agent.unary('process.Process/CloseStdin', { process: { pid } })
      let before = -1
      for (;;) {
        await agent.run('sleep 0.3')
        look()
        const count = Number(readFileSync(counter, 'utf8').trim() || 0)
        if (count === before) break
        before = count
      }
      assert.ok(before < 100, 'nobody held the process up')
    })
    assert.ok(grown < 100 * mebibyte, `grew by ${Math.round(grown / mebibyte)} MiB`)
    // Once the stopped readers have left, the process continues for the remaining reader.
    for (const reader of readers) reader.destroy()
    assert.equal((await endOf(stream))?.status, 'exit status 0')
  })
})

suite('a process that has exited while others hold its output open', () => {
  const config = { cmd: 'x', args: [], envs: {} }
  const owner = { budget: { reserve: () => false, give() {} }, ended() {} }
  const turn = () => new Promise((resolve) => setImmediate(resolve))

  /** Takes events until it holds this much, and more when some was taken from it. */
  class SlowReader implements EventReader {
    readonly events: ProcessEventInit[] = []
    bufferedBytes = 0
    readBytes = 0

    get isFull(): boolean {
      return this.bufferedBytes >= 256 * 1024
    }

    push(event: ProcessEventInit): void {
      this.events.push(event)
      this.bufferedBytes += bytesIn(event)
    }

    flush(): void {}

    /** Takes the oldest event out; false for the end of the process, or when there is none. */
    pass(process: RunningProcess): boolean {
      const event = this.events.shift()
      if (event?.event?.case !== 'data') return false
      this.bufferedBytes -= bytesIn(event)
      this.readBytes += bytesIn(event)
      process.adjustFlow()
      return true
    }
  }

  function bytesIn({ event }: ProcessEventInit): number {
    return event?.case === 'data' ? (event.value.output?.value?.length ?? 0) : 0
  }

  function readProcess() {
    const stdout = new PassThrough()
    const outputs = [{ name: 'stdout' as const, open: () => stdout }]
    const process = new RunningProcess(1, config, undefined, { outputs }, owner)
    const reader = new SlowReader()
    process.subscribe(reader)
    return { process, stdout, reader }
  }

  const hasEnd = ({ events }: SlowReader) => events.at(-1)?.event?.case === 'end'

  test('does not end while a slow reader lacks some of its output, in any order of events', async (t) => {
    const { process, stdout, reader } = readProcess()
    stdout.write(Buffer.alloc(280_000))
    await turn()
    stdout.write(Buffer.alloc(5000))
    t.mock.timers.enable({ apis: ['setTimeout'] })
    process.exited(0, null)
    t.mock.timers.tick(999)
    // The reader has taken some this very moment; nothing was read for it yet.
    assert.ok(reader.pass(process))
    t.mock.timers.tick(1)
    stdout.end()
    while (!hasEnd(reader)) {
      reader.pass(process)
      await turn()
    }
    while (reader.pass(process)) {}
    assert.equal(reader.readBytes, 285_000)
  })

  test('ends in time for a slow reader too if the others write without end', async (t) => {
    const { process, stdout, reader } = readProcess()
    t.mock.timers.enable({ apis: ['setTimeout'] })
    process.exited(0, null)
    stdout.write(Buffer.alloc(mebibyte))
    for (let seen = 1; !hasEnd(reader); seen++) {
      reader.pass(process)
      stdout.write(Buffer.alloc(64 * 1024))
      t.mock.timers.tick(seen % 10 === 0 ? 1000 : 0)
      await turn()
    }
    while (reader.pass(process)) {}
    const bytes = reader.readBytes
    assert.ok(bytes > 2 * mebibyte && bytes < 20 * mebibyte, `${bytes} bytes`)
  })
})

suite('characters of several bytes', () => {
  test('arrive byte for byte, however they are cut', async () => {
    const text = 'żółć 🐇 日本語\n'.repeat(4000)
    const path = join(agent.folder, 'text')
    writeFileSync(path, text)
    const decoder = new TextDecoder('utf-8', { fatal: true })
    let seen = ''
    for await (const { message } of agent.stream(start, shell(`dd bs=7 if=${path} 2>/dev/null`))) {
      const event = message.event as { data?: { stdout?: string } } | undefined
      seen += decoder.decode(Buffer.from(event?.data?.stdout ?? '', 'base64'), { stream: true })
    }
    assert.equal(seen + decoder.decode(), text)
  })
})
