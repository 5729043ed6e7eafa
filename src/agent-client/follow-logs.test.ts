import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { it } from 'node:test'
import { followLogs } from './follow-logs.ts'

const entry = (sequence: number) => ({
  sequence,
  at: 1000 + sequence,
  level: 'info',
  message: 'm',
  fields: { pid: '1' },
})

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

it('asks with its token for what comes after, and puts lines together that arrive in pieces', async () => {
  const asked: unknown[] = []
  using agent = await agentThat(async (request, response) => {
    asked.push(request.url, request.headers['x-access-token'])
    const text = `${JSON.stringify(entry(8))}\n${JSON.stringify(entry(9))}\n`
    response.write(text.slice(0, 30))
    await new Promise((resolve) => setTimeout(resolve, 20))
    response.end(text.slice(30))
  })
  const found = []
  for await (const batch of followLogs(agent.endpoint, 'token', 7, new AbortController().signal))
    found.push(...batch)
  assert.deepEqual(found, [entry(8), entry(9)])
  assert.deepEqual(asked, ['/logs?after=7', 'token'])
})

it('passes over what is no entry, and drops fields that are no text', async () => {
  const lines = ['garbage', '{}', '{"sequence":-1}', 'null', JSON.stringify({ ...entry(1), level: 'loud' })]
  const odd = JSON.stringify({ ...entry(2), fields: { pid: '1', nested: {}, number: 5 } })
  using agent = await agentThat((_, response) => response.end([...lines, odd, ''].join('\n')))
  const found = []
  for await (const batch of followLogs(agent.endpoint, 't', 0, new AbortController().signal))
    found.push(...batch)
  assert.deepEqual(found, [entry(2)])
})

it('gives up on a line without end, so that a sandbox cannot fill the memory of the server', async () => {
  using agent = await agentThat((_, response) => {
    response.on('error', () => {})
    response.end('x'.repeat(1024 * 1024))
  })
  await assert.rejects(async () => {
    for await (const _ of followLogs(agent.endpoint, 't', 0, new AbortController().signal)) assert.fail()
  }, /without end/)
})

it('ends when it is told to', async () => {
  using agent = await agentThat((_, response) => response.write(`${JSON.stringify(entry(1))}\n`))
  const abort = new AbortController()
  await assert.rejects(async () => {
    for await (const _ of followLogs(agent.endpoint, 't', 0, abort.signal)) abort.abort()
  }, /abort/i)
})
