import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:http'
import { suite, test } from 'node:test'
import {
  begin,
  collect,
  decode,
  endOf,
  envelope,
  frames,
  type Json,
  shell,
  token,
  useAgent,
} from '../agent-suite.ts'

const agent = useAgent()

suite('stdin', () => {
  const send = (pid: number, text: string) =>
    agent.unary('process.Process/SendInput', {
      process: { pid },
      input: { stdin: Buffer.from(text).toString('base64') },
    })

  test('is written as sent and ends when closed; closing it twice has no further effect', async () => {
    const { pid, stream } = await begin(agent, shell('cat', { stdin: true }))
    assert.equal((await send(pid, 'one ')).status, 200)
    assert.equal((await send(pid, 'two')).status, 200)
    assert.equal((await agent.unary('process.Process/CloseStdin', { process: { pid } })).status, 200)
    let text = ''
    for await (const { message } of stream) text += decode(((message.event as Json)?.data as Json)?.stdout)
    assert.equal(text, 'one two')
  })

  test('is open if the request does not say otherwise', async () => {
    const { pid, stream } = await begin(agent, { process: { cmd: 'cat' } })
    assert.equal((await send(pid, 'x')).status, 200)
    await agent.unary('process.Process/CloseStdin', { process: { pid } })
    assert.equal((await endOf(stream))?.status, 'exit status 0')
  })

  test('cannot be written if it is closed or was not enabled', async () => {
    const { pid } = await begin(agent, shell('sleep 60'))
    const rejected = await send(pid, 'x')
    assert.equal(rejected.status, 500)
    assert.deepEqual(rejected.json, {
      code: 'internal',
      message: 'error writing to stdin: stdin not enabled or closed',
    })
    const closed = await begin(agent, shell('sleep 60', { stdin: true }))
    await agent.unary('process.Process/CloseStdin', { process: { pid: closed.pid } })
    assert.equal(
      (await agent.unary('process.Process/CloseStdin', { process: { pid: closed.pid } })).status,
      200,
    )
    assert.equal((await send(closed.pid, 'x')).json.code, 'internal')
  })

  test('terminal input is rejected for a process without a terminal', async () => {
    const { pid } = await begin(agent, shell('sleep 60', { stdin: true }))
    const answer = await agent.unary('process.Process/SendInput', {
      process: { pid },
      input: { pty: 'eA==' },
    })
    assert.equal(answer.json.code, 'internal')
  })

  test('StreamInput frames reach the process as they arrive, and stdin stays open after the call', async () => {
    const { pid, stream } = await begin(agent, shell('cat', { stdin: true }))
    const output = { text: '', grown: Promise.withResolvers<void>() }
    const reading = (async () => {
      for await (const { message } of stream) {
        output.text += decode(((message.event as Json)?.data as Json)?.stdout)
        output.grown.resolve()
      }
    })()
    async function* body() {
      yield envelope({ start: { process: { pid } } })
      yield envelope({ data: { input: { stdin: Buffer.from('first ').toString('base64') } } })
      await output.grown.promise
      yield envelope({ keepalive: {} })
      yield envelope({ data: { input: { stdin: Buffer.from('second').toString('base64') } } })
    }
    const headers = { 'content-type': 'application/connect+json', 'x-access-token': token }
    const response = await agent.open('POST', '/process.Process/StreamInput', headers, body())
    assert.deepEqual(await collect(frames(response)), [
      { flags: 0, message: {} },
      { flags: 2, message: {} },
    ])
    assert.equal((await send(pid, ' third')).status, 200)
    await agent.unary('process.Process/CloseStdin', { process: { pid } })
    await reading
    assert.equal(output.text, 'first second third')
  })

  test('StreamInput to an unknown process is answered before the request has ended', async () => {
    const answered = Promise.withResolvers<void>()
    async function* body() {
      yield envelope({ start: { process: { pid: 999_999 } } })
      await answered.promise
    }
    const headers = { 'content-type': 'application/connect+json', 'x-access-token': token }
    const outgoing = request({
      host: '127.0.0.1',
      port: agent.port,
      method: 'POST',
      path: '/process.Process/StreamInput',
      headers,
    })
    const answer = once(outgoing, 'response')
    const chunks = body()
    outgoing.write((await chunks.next()).value)
    const [response] = await answer
    const [frame] = await collect(frames(response))
    answered.resolve()
    outgoing.destroy()
    assert.deepEqual(frame, {
      flags: 2,
      message: { error: { code: 'not_found', message: 'process with pid 999999 not found' } },
    })
  })
})
