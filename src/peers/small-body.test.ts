import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import test from 'node:test'
import { readSmallBody } from './small-body.ts'

test('the body of a client that has disconnected by now is not waited for', {
  timeout: 10_000,
}, async (t) => {
  const server = createServer().listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  client.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf')
  const [request, response] = (await once(server, 'request')) as [IncomingMessage, ServerResponse]
  const closed = once(response, 'close')
  client.destroy()
  await closed
  const exchange = { request, response, awaitsContinue: false, upgrade: null }
  await assert.rejects(readSmallBody(exchange), { code: 'invalid_argument', message: /client disconnected/ })
})
