import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Worker } from 'node:worker_threads'
import { atUsualPriority, raisePriority, restorePriority, sessionNiceness } from './priority.ts'
import { runCommand } from './run-command.ts'

describe('the thread of the event loop', () => {
  const usual = getPriority()
  const usualOfSession = sessionNiceness()
  beforeEach(() => assert.equal(raisePriority(), undefined))
  afterEach(restorePriority)

  it('has a higher priority than the programs that it starts', async () => {
    assert.ok(getPriority() < usual)
    assert.equal((await runCommand('nice', [])).stdout, `${usual}\n`)
    assert.ok(getPriority() < usual)
  })

  it('has a higher priority than the threads that it starts', async () => {
    const ask = `require('node:worker_threads').parentPort.postMessage(require('node:os').getPriority())`
    const worker = atUsualPriority(() => new Worker(ask, { eval: true }))
    const priorities = await new Promise((resolve) => worker.once('message', resolve))
    assert.equal(priorities, usual)
    await worker.terminate()
  })

  it('keeps its priority if nothing could be started', () => {
    assert.throws(() => atUsualPriority(() => assert.fail('none')), /none/)
    assert.ok(getPriority() < usual)
  })

  it('has a higher priority than the groups of sandboxes, with its session, and restores that', () => {
    if (usualOfSession === undefined) assert.equal(sessionNiceness(), undefined)
    else assert.equal(sessionNiceness(), Math.min(usualOfSession, -10))
    restorePriority()
    assert.equal(sessionNiceness(), usualOfSession)
  })

  it('does not raise its session further when an earlier server was killed and left it raised', () => {
    const leftRaised = sessionNiceness()
    raisePriority()
    assert.equal(sessionNiceness(), leftRaised)
    restorePriority()
    setPriority(usual)
    if (usualOfSession !== undefined) writeFileSync('/proc/self/autogroup', String(usualOfSession))
  })
})
