import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { suite, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { eventually } from '../../test/support/eventually.ts'
import type { NumberedLogEntry } from '../core/ports/logs.ts'
import { isAppError } from '../lib/app-error.ts'
import { ManualClock } from '../lib/clock.ts'
import { openFlood } from './flood-fixture.ts'
import { createLogFollower } from './follow-logs.ts'

const never = new AbortController().signal
const entry = (sequence: number) => ({
  sequence,
  at: 1000 + sequence,
  level: 'info',
  message: 'm',
  fields: { pid: '1' },
})
const line = (value: unknown) => `${JSON.stringify(value)}\n`

async function agentThat(answer: http.RequestListener) {
  const server = http.createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    endpoint: { host: '127.0.0.1', port: (server.address() as AddressInfo).port },
    [Symbol.dispose]: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

async function collect(endpoint: { host: string; port: number }): Promise<NumberedLogEntry[]> {
  const found: NumberedLogEntry[] = []
  for await (const batch of createLogFollower()(endpoint, 'token', 7, never)) found.push(...batch)
  return found
}

test('the log stream sends its token, asks for entries after the last one, and joins lines that arrive in pieces', async () => {
  const asked: unknown[] = []
  using agent = await agentThat(async (request, response) => {
    asked.push(request.url, request.headers['x-access-token'])
    const text = line(entry(8)) + line(entry(9))
    for (let at = 0; at < text.length; at += 30) {
      response.write(text.slice(at, at + 30))
      await turn()
    }
    response.end()
  })
  assert.deepEqual(await collect(agent.endpoint), [entry(8), entry(9)])
  assert.deepEqual(asked, ['/logs?after=7', 'token'])
})

test('entries that arrive within a moment are delivered together, after the answer of the command', async () => {
  const clock = new ManualClock()
  const answers: http.ServerResponse[] = []
  using agent = await agentThat((_, response) => answers.push(response.writeHead(200)))
  const sent: number[] = []
  const send = (sequence: number) => answers[0]!.write(line(entry(sequence)), () => sent.push(sequence))
  const batches: NumberedLogEntry[][] = []
  const reading = (async () => {
    for await (const batch of createLogFollower(clock)(agent.endpoint, 't', 0, never)) batches.push(batch)
  })()
  const arrival = async (count: number) => {
    await eventually(() => assert.equal(sent.length, count))
    // What lies in the socket of this very process is read in the next turns.
    for (let turns = 0; turns < 20; turns++) await turn()
  }
  const batchesAfterPause = async (count: number) => {
    clock.advance(30)
    await eventually(() => assert.equal(batches.length, count))
  }
  await eventually(() => assert.equal(answers.length, 1))
  send(1)
  send(2)
  await arrival(2)
  assert.deepEqual(batches, [])
  await batchesAfterPause(1)
  send(3)
  await arrival(3)
  await batchesAfterPause(2)
  assert.deepEqual(batches, [[entry(1), entry(2)], [entry(3)]])
  answers[0]!.end()
  await reading
})

test('the log stream ends when its signal aborts', async () => {
  using agent = await agentThat((_, response) => response.write(line(entry(1))))
  const abort = new AbortController()
  await assert.rejects(async () => {
    for await (const _ of createLogFollower()(agent.endpoint, 't', 0, abort.signal)) abort.abort()
  }, /abort/i)
})

suite('a message that no agent sends ends the log stream', () => {
  const lines: [what: string, text: string][] = [
    ['an empty line', '\n'],
    ['what is no JSON', 'garbage\n'],
    ['what is no object', 'null\n'],
    ['an object without an entry', '{}\n'],
    ['a list', '[]\n'],
    ['deep JSON', `${'['.repeat(100_000)}\n`],
    ['an unknown level', line({ ...entry(1), level: 'loud' })],
    ['a number below zero', line({ ...entry(1), sequence: -1 })],
    ['a number that is no number', line({ ...entry(1), sequence: '1' })],
    ['a time that is none', line({ ...entry(1), at: 9_000_000_000_000_000 })],
    ['a message that is no text', line({ ...entry(1), message: { length: 1 } })],
    ['fields that are no text', line({ ...entry(1), fields: { pid: '1', nested: {} } })],
    ['fields that are a list', line({ ...entry(1), fields: ['a'] })],
    ['more fields than an entry has', line({ ...entry(1), fields: { ...Array(33).fill('x') } })],
    ['a line without end', 'x'.repeat(1024 * 1024)],
  ]
  for (const [what, text] of lines) {
    test(what, async () => {
      using agent = await agentThat((_, response) => {
        response.on('error', () => {})
        response.end(text)
      })
      await assert.rejects(collect(agent.endpoint), (error) => isAppError(error, 'internal'))
    })
  }
})

suite('little is read of an endless log line', () => {
  const ok = 'HTTP/1.1 200 OK\r\n\r\n'
  const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
  const floods: [what: string, head: string, bytes: string][] = [
    ['newlines', ok, '\n'],
    ['newlines in chunks of one byte', chunked, '1\r\n\n\r\n'],
    ['one line', ok, 'x'],
    ['interim answers', '', 'HTTP/1.1 103 Early Hints\r\n\r\n'],
    ['a head', 'HTTP/1.1 200 OK\r\n', 'x-header: y\r\n'],
    ['an extension of a chunk', `${chunked}1;`, 'x'],
    ['other answers', '', 'HTTP/1.1 404 Not Found\r\nContent-Length: 1000000\r\n\r\nx'],
    ['what is no HTTP', '', '\0'],
  ]
  for (const [what, head, bytes] of floods) {
    test(what, async () => {
      using agent = await openFlood(head, bytes)
      await assert.rejects(collect(agent.endpoint), (error) => error instanceof Error)
      // What the kernel holds for both sides counts as sent, and is several megabytes.
      assert.ok(agent.state.sentBytes < 64 * 1024 * 1024, `${agent.state.sentBytes} bytes were sent`)
      assert.equal(agent.state.connections, 1)
    })
  }
})

/** What is taken of a flood of entries within two seconds, in bytes of messages. */
async function receivedIn2s(head: string, bytes: string, messageBytes: number): Promise<number> {
  using agent = await openFlood(head, bytes)
  const clock = new ManualClock()
  const abort = new AbortController()
  let receivedBytes = 0
  const reading = (async () => {
    const batches = createLogFollower(clock)(agent.endpoint, 't', 0, abort.signal)
    for await (const batch of batches) receivedBytes += batch.length * messageBytes
  })()
  for (let ms = 0; ms < 2000; ms += 10) {
    clock.advance(10)
    await turn()
  }
  abort.abort()
  await assert.rejects(reading, /abort/i)
  return receivedBytes
}

suite('endless entries are read at the pace of an honest agent', () => {
  const kibibyte = 1024
  const text = line({ ...entry(1), message: 'x'.repeat(kibibyte) })

  test('a burst of 512 KiB is read at once, then 256 KiB a second', async () => {
    const received = await receivedIn2s('HTTP/1.1 200 OK\r\n\r\n', text, kibibyte)
    assert.ok(received > 0 && received < 1200 * kibibyte, `${received} bytes were taken`)
  })

  test('far fewer bytes are read in chunks of one byte, because each chunk costs as much as a line', async () => {
    const chunks = [...text].map((letter) => `1\r\n${letter}\r\n`).join('')
    const head = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
    const received = await receivedIn2s(head, chunks, kibibyte)
    assert.ok(received < 20 * kibibyte, `${received} bytes were taken`)
  })
})
