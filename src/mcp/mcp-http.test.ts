/** The door of the Model Context Protocol, over a server whose sandboxes answer with as much as they may. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { eventually } from '../../test/support/eventually.ts'
import { AnswerBudget } from './answer-budget.ts'
import { McpDoor } from './mcp-http.ts'

const mebibyte = 1024 * 1024
const png = 'x'.repeat(mebibyte)

describe('tools over HTTP', () => {
  let sandboxes: Server
  let door: Server
  /** How often a sandbox was asked to run code. */
  let runs = 0
  let answered = 0
  /** Without its end, an answer waits. */
  let ends = true
  const urlOf = (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  before(async () => {
    sandboxes = createServer((request, response) => {
      if (request.url!.startsWith('/sandboxes/')) return response.end('{}')
      runs++
      for (let left = 2; left > 0; left--) response.write(`${JSON.stringify({ type: 'result', png })}\n`)
      if (ends) response.end()
    }).listen(0, '127.0.0.1')
    await once(sandboxes, 'listening')
    const mcp = new McpDoor('0', new AnswerBudget(5 * mebibyte, 8 * mebibyte))
    door = createServer(async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk)
      const body = JSON.parse(Buffer.concat(chunks).toString())
      const access = { url: urlOf(sandboxes), apiKey: 'e2b_0' }
      // As a server that still looks for the team of the key.
      if (request.headers['x-leaves'] && !response.destroyed) await once(response, 'close')
      await mcp.answer(String(request.headers['x-team']), access, request, response, body)
      answered++
    }).listen(0, '127.0.0.1')
    await once(door, 'listening')
  })
  after(() => {
    for (const server of [sandboxes, door]) {
      server.closeAllConnections()
      server.close()
    }
  })

  const calls = (count: number) =>
    JSON.stringify(
      Array.from({ length: count }, (_, id) => ({
        jsonrpc: '2.0',
        id,
        method: 'tools/call',
        params: { name: 'run_code', arguments: { sandboxID: 'i1', code: '1' } },
      })),
    )
  const accept = 'application/json, text/event-stream'
  const ask = async (team: string, count: number): Promise<{ images: number; failures: string[] }> => {
    const headers = { accept, 'content-type': 'application/json', 'x-team': team }
    const answer = await fetch(urlOf(door), { method: 'POST', headers, body: calls(count) })
    type Result = { result: { content: { type: string; text?: string }[]; isError?: boolean } }
    const all = [(await answer.json()) as Result | Result[]].flat()
    const parts = all.flatMap(({ result }) => result.content)
    return {
      images: parts.filter(({ type }) => type === 'image').length,
      failures: all.flatMap(({ result }) => (result.isError ? result.content[0]!.text! : [])),
    }
  }

  it('hold only so much of what sandboxes answer, however many calls a request has', async () => {
    const { images, failures } = await ask('one', 50)
    assert.ok(images >= 2 && images <= 5, `${images}`)
    assert.ok(failures.length >= 45)
    for (const text of failures) assert.match(text, /too much output/)
    // What they held is free again.
    assert.deepEqual(await ask('one', 2), { images: 4, failures: [] })
  })

  it('run nothing, and hold nothing, for a client that has left before its call', async () => {
    const [asked, before] = [runs, answered]
    const body = calls(2)
    for (let left = 2; left > 0; left--) {
      const leaving = connect((door.address() as AddressInfo).port, '127.0.0.1').on('error', () => {})
      const head = `POST / HTTP/1.1\r\nhost: x\r\naccept: ${accept}\r\ncontent-type: application/json\r\nx-team: one\r\nx-leaves: yes`
      leaving.end(`${head}\r\ncontent-length: ${body.length}\r\n\r\n${body}`, () => leaving.destroy())
    }
    await eventually(async () => assert.equal(answered, before + 2))
    assert.equal(runs, asked)
    assert.deepEqual(await ask('one', 2), { images: 4, failures: [] })
  })

  it('leave a team its part while another one does not read its answers', async () => {
    ends = false
    const asked = runs
    const idle = connect((door.address() as AddressInfo).port, '127.0.0.1').on('error', () => {})
    const body = calls(2)
    idle.write(
      `POST / HTTP/1.1\r\nhost: x\r\naccept: ${accept}\r\ncontent-type: application/json\r\nx-team: one\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
    await eventually(async () => assert.equal(runs, asked + 2))
    ends = true
    // Both answers of the first team are kept: it has no more, and another one has.
    await eventually(async () => assert.equal((await ask('one', 1)).failures.length, 1))
    assert.deepEqual(await ask('other', 1), { images: 2, failures: [] })
    idle.destroy()
    await eventually(async () => assert.deepEqual(await ask('one', 2), { images: 4, failures: [] }))
  })
})
