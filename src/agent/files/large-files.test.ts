import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, readlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { token, useAgent } from '../agent-suite.ts'

const MiB = 1024 * 1024
const agent = useAgent()
const at = (name: string) => join(agent.folder, name)
const url = (path: string) => `/files?path=${encodeURIComponent(path)}`
const read = (path: string) => agent.open('GET', url(path), { 'x-access-token': token })

suite('a large file', () => {
  test('is read as it is, however slowly, whole and in part', async () => {
    const bytes = randomBytes(24 * MiB + 17)
    writeFileSync(at('slow'), bytes)
    const chunks: Buffer[] = []
    for await (const chunk of await read(at('slow'))) {
      chunks.push(chunk)
      await turn()
    }
    assert.ok(Buffer.concat(chunks).equals(bytes))
    const part = await agent.fetch('GET', url(at('slow')), { range: 'bytes=1000000-' })
    assert.ok(part.body.equals(bytes.subarray(1_000_000)))
  })

  test('breaks the connection if it shrinks while it is read', async () => {
    writeFileSync(at('shrinking'), Buffer.alloc(64 * MiB))
    const response = await read(at('shrinking'))
    truncateSync(at('shrinking'), 1)
    await assert.rejects(response.toArray(), { code: 'ECONNRESET' })
  })

  test('is closed when its reader leaves', async () => {
    writeFileSync(at('left'), Buffer.alloc(64 * MiB))
    const response = await read(at('left'))
    assert.ok(isOpen(at('left')))
    response.destroy()
    while (isOpen(at('left'))) await turn()
  })

  test('is written as it is, in pieces of any size', async () => {
    const bytes = randomBytes(5 * MiB)
    async function* pieces() {
      for (let end = 0, size = 1; end < bytes.length; size = (size * 7) % 300_007) {
        yield bytes.subarray(end, end + size)
        end += size
      }
    }
    const type = { 'content-type': 'application/octet-stream' }
    assert.equal((await agent.fetch('POST', url(at('pieces')), type, pieces())).status, 200)
    assert.ok(readFileSync(at('pieces')).equals(bytes))
  })

  test('is not unpacked any further when the sender of its small body leaves', async () => {
    mkdirSync(at('bomb'))
    // So small that the agent has all of it, and hears of the end, before it has unpacked much.
    const body = gzipSync(Buffer.alloc(48 * MiB))
    const socket = connect(agent.port, '127.0.0.1')
    socket.write(
      `POST ${url(at('bomb/file'))} HTTP/1.1\r\nHost: x\r\nX-Access-Token: ${token}\r\nContent-Encoding: gzip\r\n` +
        `Content-Type: application/octet-stream\r\nContent-Length: ${body.length}\r\n\r\n`,
    )
    socket.write(body)
    while (readdirSync(at('bomb')).length === 0) await turn()
    socket.destroy()
    while (readdirSync(at('bomb')).some((name) => name !== 'file')) await turn()
    assert.deepEqual(readdirSync(at('bomb')), [])
  })
})

/** By this process, in which the agent runs. */
function isOpen(path: string): boolean {
  return readdirSync('/proc/self/fd').some((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === path
    } catch {
      return false
    }
  })
}
