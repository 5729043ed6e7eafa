import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, it } from 'node:test'
import { create, fromJsonString, type MessageInitShape, toJsonString } from '@bufbuild/protobuf'
import {
  type ProcessEventSchema,
  StartRequestSchema,
  StartResponseSchema,
} from '../contract/rpc/process_pb.ts'
import { isAppError } from '../lib/app-error.ts'
import { runProcess } from './run-process.ts'

const command = { command: 'echo "a\nb"', user: 'user', cwd: '', envs: { A: '1' } }
const signal = new AbortController().signal

type EventInit = NonNullable<MessageInitShape<typeof ProcessEventSchema>['event']>

function frame(bytes: Uint8Array, flags = 0): Buffer {
  const head = Buffer.alloc(5)
  head[0] = flags
  head.writeUInt32BE(bytes.length, 1)
  return Buffer.concat([head, bytes])
}

const eventOf = (event: EventInit) =>
  frame(Buffer.from(toJsonString(StartResponseSchema, create(StartResponseSchema, { event: { event } }))))
const data = (output: 'stdout' | 'stderr', text: string) =>
  eventOf({ case: 'data', value: { output: { case: output, value: Buffer.from(text) } } })
const endOfStream = (value: unknown) => frame(Buffer.from(JSON.stringify(value)), 2)
const started = eventOf({ case: 'start', value: { pid: 7 } })

async function withAgent(
  answer: (request: IncomingMessage, response: ServerResponse, body: Buffer) => void,
  work: (agent: { host: string; port: number }) => Promise<void>,
): Promise<void> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    response.on('error', () => {})
    response.setHeader('content-type', 'application/connect+json')
    answer(request, response, Buffer.concat(chunks))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    await work({ host: '127.0.0.1', port: (server.address() as AddressInfo).port })
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

describe('running a command', () => {
  it('sends the request of a client, and reports output and end however the frames are cut', async () => {
    const stream = Buffer.concat([
      started,
      data('stdout', 'ä'),
      eventOf({ case: 'keepalive', value: {} }),
      data('stderr', 'e'),
      eventOf({ case: 'end', value: { exitCode: 3, exited: true, status: 'exit status 3' } }),
      endOfStream({}),
    ])
    for (const size of [1, 7, stream.length]) {
      await withAgent(
        async (request, response, body) => {
          assert.equal(request.url, '/process.Process/Start')
          assert.equal(request.headers.authorization, `Basic ${Buffer.from('user:').toString('base64')}`)
          assert.equal(request.headers['x-access-token'], 'token')
          assert.equal(request.headers['connect-accept-encoding'], undefined, 'nothing is to be unpacked')
          const asked = fromJsonString(StartRequestSchema, body.subarray(5).toString())
          assert.deepEqual(asked.process?.args, ['-l', '-c', command.command])
          assert.equal(asked.stdin, false)
          for (let at = 0; at < stream.length; at += size) {
            response.write(stream.subarray(at, at + size))
            await new Promise(setImmediate)
          }
          response.end()
        },
        async (agent) => {
          const seen: string[] = []
          const onOutput = ({ stream: name, data }: { stream: string; data: Buffer }) =>
            void seen.push(`${name} ${data}`)
          const end = await runProcess(agent, 'token', command, { onOutput, signal })
          assert.deepEqual(end, { exitCode: 3, status: 'exit status 3' })
          assert.deepEqual(seen, ['stdout ä', 'stderr e'])
        },
      )
    }
  })

  it('reports why the command could not be started', async () => {
    const error = { code: 'unauthenticated', message: "invalid username: 'nobody2'" }
    await withAgent(
      (_, response) => response.end(endOfStream({ error })),
      (agent) =>
        assert.rejects(
          runProcess(agent, 'token', command, { signal }),
          (thrown) =>
            isAppError(thrown, 'unprocessable') &&
            thrown.message === "unauthenticated: invalid username: 'nobody2'",
        ),
    )
  })

  it('reports that the agent broke off', async () => {
    await withAgent(
      (_, response) => response.write(started, () => response.destroy()),
      (agent) =>
        assert.rejects(
          runProcess(agent, 'token', command, { signal }),
          (thrown) => isAppError(thrown, 'unavailable') && /broke off/.test(thrown.message),
        ),
    )
  })

  it('rejects messages that no agent sends, with a short error', async () => {
    const longWords = { error: { code: 'internal', message: 'x'.repeat(100_000) } }
    const answers: [what: string, bytes: Buffer, says: RegExp][] = [
      ['a message without end', Buffer.from([0, 255, 255, 255, 255]), /message size 4294967295/],
      ['an end that is missing', started, /missing EndStreamResponse/],
      ['no word on how it ended', Buffer.concat([started, endOfStream({})]), /did not say how/],
      ['what is no message', frame(Buffer.alloc(100, 255)), /parse|varint|invalid/i],
      ['an end that is no JSON', frame(Buffer.from('['.repeat(10_000)), 2), /end stream/i],
      ['more words than anybody reads', endOfStream(longWords), /^.{1,1100}$/],
    ]
    for (const [what, bytes, says] of answers) {
      await withAgent(
        (_, response) => response.end(bytes),
        (agent) =>
          assert.rejects(
            runProcess(agent, 'token', command, { signal }),
            (thrown) => isAppError(thrown) && says.test(thrown.message),
            what,
          ),
      )
    }
  })

  it('leaves no connection open after an end, a failure or an abort', async () => {
    const abort = new AbortController()
    const ends: ((response: ServerResponse) => void)[] = [
      (response) => response.write(endOfStream({ error: { code: 'internal' } })),
      (response) => response.write(frame(Buffer.alloc(100, 255))),
      (response) => response.write(started, () => abort.abort(new Error('given up'))),
    ]
    for (const answer of ends) {
      const closed = Promise.withResolvers<void>()
      await withAgent(
        (_, response) => {
          response.on('close', () => closed.resolve())
          answer(response)
        },
        async (agent) => {
          await assert.rejects(runProcess(agent, 'token', command, { signal: abort.signal }))
          await closed.promise
        },
      )
    }
    assert.equal((abort.signal.reason as Error).message, 'given up')
  })
})
