import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { test } from 'node:test'
import { addonFile } from '../lib/native.ts'
import { bindAlone } from './listen.ts'

test('a socket of our own serves on all addresses, and nobody else gets its port', async () => {
  const server = createServer((_, response) => response.end('here'))
  server.listen({ fd: bindAlone(0, addonFile()!) })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  try {
    assert.equal(await (await fetch(`http://127.0.0.1:${port}`)).text(), 'here')
    assert.throws(() => bindAlone(port, addonFile()!), /could not be bound \(system error 98\)/)
    for (const host of ['127.0.0.1', '0.0.0.0', '::']) {
      const other = createTcpServer().listen(port, host)
      const [error] = await once(other, 'error')
      assert.equal(error.code, 'EADDRINUSE', host)
    }
  } finally {
    server.closeAllConnections()
    server.close()
  }
})
