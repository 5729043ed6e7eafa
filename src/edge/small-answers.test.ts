import assert from 'node:assert/strict'
import { once } from 'node:events'
import http, { type IncomingMessage } from 'node:http'
import { test } from 'node:test'
import { edgeFixture, rawExchange, to } from './edge-fixture.ts'

test('a small answer arrives byte for byte, in one piece or in several', async () => {
  await using edge = await edgeFixture()
  const sandbox = edge.sandbox()
  const bytes = Buffer.from(Array.from({ length: 512 }, (_, at) => at % 256))
  let sendRest = () => {}
  const service = await edge.service((request, response) => {
    response.setHeader('Content-Length', bytes.length)
    if (request.method === 'HEAD' || request.url === '/whole') return response.end(bytes)
    response.write(bytes.subarray(0, 100))
    sendRest = () => response.end(bytes.subarray(100))
  })
  sandbox.map(80, service.port)
  const ask = async (path: string, method = 'GET') => {
    const target = { port: edge.port, path, method, headers: to(sandbox, 80), agent: false }
    const [response] = (await once(http.request(target).end(), 'response')) as [IncomingMessage]
    assert.equal(response.headers['content-length'], '512')
    return response
  }
  assert.deepEqual(Buffer.concat(await (await ask('/whole')).toArray()), bytes)
  const parts = await ask('/parts')
  const [first] = await once(parts, 'data')
  assert.deepEqual(first, bytes.subarray(0, 100))
  sendRest()
  assert.deepEqual(Buffer.concat(await parts.toArray()), bytes.subarray(100))
  assert.equal((await (await ask('/whole', 'HEAD')).toArray()).length, 0)
})

for (const status of ['204 No Content', '304 Not Modified']) {
  test(`an answer ${status} that announces the length of a missing body ends, and the next one follows`, async () => {
    await using edge = await edgeFixture()
    const sandbox = edge.sandbox()
    const service = await edge.raw((socket) => {
      socket.on('data', () => socket.write(`HTTP/1.1 ${status}\r\nContent-Length: 44\r\n\r\n`))
    })
    sandbox.map(80, service.port)
    const hosts = Object.entries(to(sandbox, 80)).map(([name, value]) => `${name}: ${value}\r\n`)
    const head = `GET / HTTP/1.1\r\n${hosts.join('')}`
    const answers = await rawExchange(edge.port, `${head}\r\n${head}Connection: close\r\n\r\n`)
    assert.equal(answers.split(`HTTP/1.1 ${status}`).length - 1, 2, answers)
  })
}
