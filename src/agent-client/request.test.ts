import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { describe, it } from 'node:test'
import { openConnection } from './request.ts'

const withinMs = 10_000

async function listen() {
  const server = createServer((socket) => socket.resume()).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  const close = () => new Promise((resolve) => server.close(resolve))
  return { endpoint: { host: '127.0.0.1', port }, close }
}

describe('a connection to an agent', () => {
  it("leaves no listener on the caller's signal, whether it was made or refused", async () => {
    const { signal } = new AbortController()
    const { endpoint, close } = await listen()
    const socket = await openConnection(endpoint, withinMs, signal)
    const whenMade = getEventListeners(signal, 'abort').length
    socket.destroy()
    await close()
    await assert.rejects(openConnection(endpoint, withinMs, signal), { code: 'ECONNREFUSED' })
    assert.deepEqual([whenMade, getEventListeners(signal, 'abort').length], [0, 0])
  })

  it("fails with the reason of the caller's signal, before and while it is made", async () => {
    const caller = new AbortController()
    const { endpoint, close } = await listen()
    const attempt = openConnection(endpoint, withinMs, caller.signal)
    caller.abort(new Error('not wanted'))
    await assert.rejects(attempt, /not wanted/)
    await assert.rejects(openConnection(endpoint, withinMs, caller.signal), /not wanted/)
    await close()
  })
})
