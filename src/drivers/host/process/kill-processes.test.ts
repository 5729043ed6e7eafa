import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, describe, it } from 'node:test'
import { isAppError } from '../../../lib/app-error.ts'
import { untilKilled } from './kill-processes.ts'

/** A pid that no process can have. */
const immortal = 4_194_303
const always = { find: async () => [immortal], confirm: () => [] }

describe('processes that are to be killed', () => {
  let child: ChildProcess | undefined
  afterEach(() => child?.kill('SIGKILL'))

  it('are killed until none is found', async () => {
    child = spawn('sleep', ['60'])
    await once(child, 'spawn')
    const { pid } = child
    const ended = once(child, 'exit')
    let isThere = true
    void ended.then(() => {
      isThere = false
    })
    await untilKilled('A test', {
      find: async () => (isThere ? [pid!] : []),
      confirm: (pids) => [...pids],
    })
    assert.equal((await ended)[1], 'SIGKILL')
  })

  it('are left alone when their pid now belongs to another process', async () => {
    child = spawn('sleep', ['60'])
    await once(child, 'spawn')
    const found = [[child.pid!], []]
    await untilKilled('A test', { find: async () => found.shift()!, confirm: () => [] })
    child.kill('SIGTERM')
    assert.deepEqual(await once(child, 'exit'), [null, 'SIGTERM'])
  })

  it('cause an error after a bounded time when they do not die', async () => {
    await assert.rejects(untilKilled('Processes of a test', always, { limitMs: 50 }), (error) => {
      assert.ok(isAppError(error, 'unavailable'))
      assert.match(error.message, /Processes of a test do not die .* 4194303/)
      return true
    })
  })

  it('are not waited for once the signal aborts', async () => {
    const abort = new AbortController()
    const killed = untilKilled('Processes of a test', always, { signal: abort.signal })
    abort.abort(new Error('not wanted any more'))
    await assert.rejects(killed, /not wanted any more/)
  })
})
