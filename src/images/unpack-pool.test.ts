import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { after, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { UnpackPool } from './unpack-pool.ts'

const folder = mkdtempSync(join(tmpdir(), 'warren-images-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const digest = `sha256:${'0'.repeat(64)}`
const job = { folder, digest, diffID: digest, ownerShift: 0, maxEntries: 1, maxBytes: 1 }

// To be terminated at a bad moment of its start, one time in some hundred, takes the process with it.
test('a worker whose layer is aborted while it starts ends by itself and is not terminated', async (t) => {
  const terminate = t.mock.method(Worker.prototype, 'terminate')
  const sent = t.mock.method(Worker.prototype, 'postMessage')
  const abort = new AbortController()
  const layer = new Readable({ read() {}, signal: abort.signal })
  const pool = new UnpackPool(1)
  const unpacked = pool.unpack(
    job,
    () => layer,
    () => {},
    abort.signal,
  )
  while (sent.mock.callCount() === 0) await new Promise(setImmediate)
  const worker = sent.mock.calls[0]?.this as Worker
  abort.abort(new Error('given up'))
  await assert.rejects(unpacked)
  assert.equal(worker.threadId, -1, 'it has ended when the caller is told')
  assert.equal(terminate.mock.callCount(), 0)
  await pool.close()
})
