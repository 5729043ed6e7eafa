import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { after, before, describe, it } from 'node:test'
import { createLayout } from '../record/layout.ts'
import type { SandboxRecord } from '../record/records.ts'
import type { Cgroups } from './cgroups.ts'
import { ExitWatch } from './exit-watch.ts'

const cgroups = { memoryKills: async () => 0, forkRefusals: async () => 0 } as unknown as Cgroups
const layout = createLayout('/tmp/none', 'abcdef')
const record = { sandboxID: 'one', runID: 'first' } as SandboxRecord

describe('a watched sandbox', () => {
  let child: ChildProcess
  let watch: ExitWatch
  before(async () => {
    child = spawn('sleep', ['600'])
    await once(child, 'spawn')
    const log = (message: string, cause?: unknown) => assert.fail(`${message}: ${cause}`)
    watch = new ExitWatch({ cgroups, layout, log, needsThreads: () => false })
    await watch.watch(record, child.pid!)
  })
  after(() => {
    child.kill('SIGKILL')
    watch.close()
  })

  it('is alive while its first process lives, and nothing is reported for another run', () => {
    assert.equal(watch.livePid(record), child.pid)
    assert.equal(watch.livePid({ ...record, runID: 'second' }), undefined)
    assert.equal(watch.livePid({ ...record, sandboxID: 'two' }), undefined)
  })

  it('is not alive from the moment that its first process has ended', async () => {
    child.kill('SIGKILL')
    await once(child, 'exit')
    assert.equal(watch.livePid(record), undefined)
  })
})
