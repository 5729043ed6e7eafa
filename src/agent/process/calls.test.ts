import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { create, type DescMessage, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import {
  ListResponseSchema,
  SendInputRequestSchema,
  StartRequestSchema,
  StartResponseSchema,
  StreamInputRequestSchema,
  StreamInputResponseSchema,
} from '../../contract/rpc/process_pb.ts'
import { begin, collect, envelope, frames, type Json, shell, start, token, useAgent } from '../agent-suite.ts'

const agent = useAgent()
const method = (name: string) => `process.Process/${name}`
const json = { 'content-type': 'application/connect+json', 'x-access-token': token }
const binary = { 'content-type': 'application/connect+proto', 'x-access-token': token }

async function isAlive(pid: number): Promise<boolean> {
  const { json } = await agent.unary(method('List'), {})
  return ((json.processes ?? []) as Json[]).some((process) => process.pid === pid)
}

suite('the time limit of a call', () => {
  const soon = { 'connect-timeout-ms': '150' }

  test('ends Connect and leaves the process alone', async () => {
    const { pid } = await begin(agent, shell('sleep 600'))
    const seen = await collect(agent.stream(method('Connect'), { process: { pid } }, soon))
    assert.equal((seen.at(-1)!.message.error as Json).code, 'deadline_exceeded')
    assert.equal(await isAlive(pid), true)
  })

  test('ends SendInput to a process that does not read, and leaves the process alone', async () => {
    const { pid } = await begin(agent, shell('sleep 600', { stdin: true }))
    const input = { process: { pid }, input: { stdin: Buffer.alloc(300_000).toString('base64') } }
    for (let i = 0; i < 3; i++) {
      assert.equal((await agent.unary(method('SendInput'), input, soon)).json.code, 'deadline_exceeded')
    }
    assert.equal(await isAlive(pid), true)
    const { processes } = await agent.agent.services()
    processes.table
      .running()
      .find((process) => process.pid === pid)!
      .signal('SIGKILL')
  })

  test('ends StreamInput while its client is silent, and leaves the process alone', async () => {
    const { pid } = await begin(agent, shell('cat', { stdin: true }))
    const ended = Promise.withResolvers<void>()
    async function* body() {
      yield envelope({ start: { process: { pid } } })
      await ended.promise
    }
    const opening = agent.open('POST', `/${method('StreamInput')}`, { ...json, ...soon }, body())
    setTimeout(() => ended.resolve(), 400)
    const [frame] = await collect(frames(await opening))
    assert.equal((frame!.message.error as Json).code, 'deadline_exceeded')
    assert.equal(await isAlive(pid), true)
  })

  test('is rejected if it is not a number', async () => {
    const answer = await agent.unary(method('List'), {}, { 'connect-timeout-ms': 'soon' })
    assert.equal(answer.json.code, 'invalid_argument')
  })
})

test('a client that breaks off in the middle of StreamInput leaves the process and its stdin open', async () => {
  const { pid, stream } = await begin(agent, shell('cat', { stdin: true }))
  const broken = new AbortController()
  async function* body() {
    yield envelope({ start: { process: { pid } } })
    yield envelope({ data: { input: { stdin: Buffer.from('first ').toString('base64') } } })
    await stream.next()
    broken.abort()
    throw new Error('gone')
  }
  await assert.rejects(agent.open('POST', `/${method('StreamInput')}`, json, body()), /gone/)
  const input = { process: { pid }, input: { stdin: Buffer.from('second').toString('base64') } }
  assert.equal((await agent.unary(method('SendInput'), input)).status, 200)
  const { value } = await stream.next()
  assert.deepEqual(value?.message.event, { data: { stdout: Buffer.from('second').toString('base64') } })
})

suite('the binary codec', () => {
  const message = <T extends DescMessage>(schema: T, init: MessageInitShape<T>): Buffer =>
    Buffer.from(toBinary(schema, create(schema, init)))
  const framed = (payload: Buffer): Buffer => {
    const head = Buffer.alloc(5)
    head.writeUInt32BE(payload.length, 1)
    return Buffer.concat([head, payload])
  }
  const payloads = async (response: AsyncIterable<Buffer>) => {
    const all = Buffer.concat(await collect(response))
    const found: { flags: number; payload: Buffer }[] = []
    for (let at = 0; at < all.length; ) {
      const end = at + 5 + all.readUInt32BE(at + 1)
      found.push({ flags: all[at]!, payload: all.subarray(at + 5, end) })
      at = end
    }
    return found
  }

  test('starts a process and returns its events', async () => {
    const request = message(StartRequestSchema, {
      process: { cmd: '/bin/sh', args: ['-c', 'echo hello; exit 2'] },
      stdin: false,
    })
    const seen = await payloads(await agent.open('POST', `/${start}`, binary, framed(request)))
    assert.deepEqual(
      seen.map(({ flags }) => flags),
      [0, 0, 0, 2],
    )
    const events = seen
      .slice(0, 3)
      .map(({ payload }) => fromBinary(StartResponseSchema, payload).event!.event)
    assert.deepEqual(
      events.map((event) => event.case),
      ['start', 'data', 'end'],
    )
    const [, data, end] = events
    assert.ok(data?.case === 'data' && end?.case === 'end')
    assert.equal(Buffer.from(data.value.output.value!).toString(), 'hello\n')
    assert.equal(end.value.exitCode, 2)
  })

  test('lists and sends input', async () => {
    const { pid, stream } = await begin(agent, shell('read x; echo got $x', { stdin: true }))
    const headers = { 'content-type': 'application/proto' }
    const listed = await agent.fetch('POST', `/${method('List')}`, headers, Buffer.alloc(0))
    assert.ok(fromBinary(ListResponseSchema, listed.body).processes.some((process) => process.pid === pid))
    const request = message(SendInputRequestSchema, {
      process: { selector: { case: 'pid', value: pid } },
      input: { input: { case: 'stdin', value: Buffer.from('it\n') } },
    })
    assert.equal((await agent.fetch('POST', `/${method('SendInput')}`, headers, request)).status, 200)
    const { value } = await stream.next()
    assert.deepEqual(value?.message.event, { data: { stdout: Buffer.from('got it\n').toString('base64') } })
  })

  test('streams input', async () => {
    const { pid, stream } = await begin(agent, shell('read x; echo got $x', { stdin: true }))
    const body = Buffer.concat(
      [
        message(StreamInputRequestSchema, {
          event: { case: 'start', value: { process: { selector: { case: 'pid', value: pid } } } },
        }),
        message(StreamInputRequestSchema, {
          event: {
            case: 'data',
            value: { input: { input: { case: 'stdin', value: Buffer.from('it\n') } } },
          },
        }),
      ].map(framed),
    )
    const [first, last] = await payloads(await agent.open('POST', `/${method('StreamInput')}`, binary, body))
    fromBinary(StreamInputResponseSchema, first!.payload)
    assert.deepEqual([first!.flags, last!.flags], [0, 2])
    const { value } = await stream.next()
    assert.deepEqual(value?.message.event, { data: { stdout: Buffer.from('got it\n').toString('base64') } })
  })
})
