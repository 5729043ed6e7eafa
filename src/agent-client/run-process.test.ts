import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, it } from 'node:test'
import { isAppError } from '../lib/app-error.ts'
import { runProcess } from './run-process.ts'

const command = { command: 'echo "a\nb"', user: 'user', cwd: '', envs: { A: '1' } }
const signal = new AbortController().signal

function frame(value: unknown, flags = 0): Buffer {
  const text = Buffer.from(JSON.stringify(value))
  const head = Buffer.alloc(5)
  head[0] = flags
  head.writeUInt32BE(text.length, 1)
  return Buffer.concat([head, text])
}

async function withAgent(
  answer: (request: IncomingMessage, response: ServerResponse, body: Buffer) => void,
  work: (agent: { host: string; port: number }) => Promise<void>,
): Promise<void> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
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
  it('asks as a client would, and tells output and end, however the frames are cut', async () => {
    const stream = Buffer.concat([
      frame({ event: { start: { pid: 7 } } }),
      frame({ event: { data: { stdout: Buffer.from('ä').toString('base64') } } }),
      frame({ event: { keepalive: {} } }),
      frame({ event: { data: { stderr: Buffer.from('e').toString('base64') } } }),
      frame({ event: { end: { exitCode: 3, exited: true, status: 'exit status 3' } } }),
      frame({}, 2),
    ])
    for (const size of [1, 7, stream.length]) {
      await withAgent(
        async (request, response, body) => {
          assert.equal(request.headers.authorization, `Basic ${Buffer.from('user:').toString('base64')}`)
          assert.equal(request.headers['x-access-token'], 'token')
          const asked = JSON.parse(body.subarray(5).toString())
          assert.deepEqual(asked.process.args, ['-l', '-c', command.command])
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

  it('passes on why it could not be started', async () => {
    const error = { code: 'unauthenticated', message: "invalid username: 'nobody2'" }
    await withAgent(
      (_, response) => response.end(frame({ error }, 2)),
      (agent) =>
        assert.rejects(
          runProcess(agent, 'token', command, { signal }),
          (thrown) =>
            isAppError(thrown, 'unprocessable') && /invalid username: 'nobody2'/.test(thrown.message),
        ),
    )
  })

  it('says so when the agent breaks off, or sends what no agent sends', async () => {
    const huge = Buffer.from([0, 255, 255, 255, 255])
    for (const [bytes, says] of [
      [frame({ event: { start: { pid: 7 } } }), /broke off/],
      [huge, /too large/],
    ] as const) {
      await withAgent(
        (_, response) => response.end(bytes),
        (agent) => assert.rejects(runProcess(agent, 'token', command, { signal }), says),
      )
    }
  })
})
