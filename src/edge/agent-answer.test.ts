/** What clients make of a sandbox that cannot be reached for a moment, by their own code. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { RateLimitError, Sandbox, SandboxError } from 'e2b'
import { envdPort } from '../contract/constants.ts'
import { AppError } from '../lib/app-error.ts'
import { nodeUnreachable, sendAnswer } from './answers.ts'

const sandboxId = 'iaaaaaaaaaaaaaaaaaaaa'
const away = new AppError('unavailable', 'Node x cannot be reached now.', {
  retry: { should: true, afterSeconds: 1 },
})
const lost = new AppError('unavailable', 'Node x broke off.', { retry: { should: false } })

/** A client of a sandbox whose node is out of reach. */
async function open(t: { after(work: () => void): void }, error: AppError) {
  const server = createServer((request, response) => {
    const isApi = request.headers['e2b-sandbox-id'] === undefined
    if (!isApi) return sendAnswer(request, response, nodeUnreachable(sandboxId, envdPort, error))
    const shown = {
      sandboxID: sandboxId,
      templateID: 'base',
      envdVersion: '0.6.13',
      envdAccessToken: 'token',
    }
    response.setHeader('Content-Type', 'application/json')
    response.end(JSON.stringify(shown))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => server.close().closeAllConnections())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = { apiKey: `e2b_${'0'.repeat(40)}`, apiUrl: url, sandboxUrl: url }
  return Sandbox.connect(sandboxId, client)
}

const requests: [string, (sandbox: Sandbox) => Promise<unknown>][] = [
  ['a command', (sandbox) => sandbox.commands.run('true')],
  ['a list of processes', (sandbox) => sandbox.commands.list()],
  ['a list of files', (sandbox) => sandbox.files.list('/')],
  ['a file to read', (sandbox) => sandbox.files.read('/a')],
  ['a file to write', (sandbox) => sandbox.files.write('/a', 'b')],
]

test('the JavaScript client tells "try again later" of a node that is away', async (t) => {
  const sandbox = await open(t, away)
  for (const [name, ask] of requests) {
    await assert.rejects(ask(sandbox), (error) => {
      assert.ok(error instanceof RateLimitError, `${name}: ${error}`)
      assert.match(error.message, /Node x cannot be reached now/)
      return true
    })
  }
})

test('it does not say that the sandbox is gone where an answer was lost', async (t) => {
  const sandbox = await open(t, lost)
  for (const [name, ask] of requests) {
    await assert.rejects(ask(sandbox), (error) => {
      assert.equal((error as Error).constructor, SandboxError, `${name}: ${error}`)
      assert.match((error as Error).message, /Node x broke off/)
      return true
    })
  }
})

test('services of other ports are answered with 503, as any client of HTTP expects', () => {
  const answer = nodeUnreachable(sandboxId, 80, away)
  assert.deepEqual([answer.status, answer.agentCode, answer.retryAfterSeconds], [503, undefined, 1])
})
