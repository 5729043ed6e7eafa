import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { test } from 'node:test'
import { addonFile } from '../lib/native.ts'
import { listenDirectly } from '../lib/node-internals/direct-listen.ts'
import { bindAlone } from './listen.ts'

test('without a socket of its own the agent listens on all addresses, and not on a port that is taken', async () => {
  const [first, second] = [createServer((_, response) => response.end('here')), createServer()]
  listenDirectly(first, 0)
  await once(first, 'listening')
  const { port, address } = first.address() as AddressInfo
  try {
    assert.equal(address, '::')
    assert.equal(await (await fetch(`http://127.0.0.1:${port}`)).text(), 'here')
    listenDirectly(second, port)
    const [error] = await once(second, 'error')
    assert.equal(error.code, 'EADDRINUSE')
  } finally {
    first.closeAllConnections()
    first.close()
  }
})

test('with a socket of its own the agent serves on all addresses, and nobody else gets its port', async () => {
  const server = createServer((_, response) => response.end('here'))
  listenDirectly(server, 0, bindAlone(0, addonFile()!))
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
