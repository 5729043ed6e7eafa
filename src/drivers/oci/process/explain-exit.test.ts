import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { explainExit } from './explain-exit.ts'

const exitedWith = (code: number) => code << 8

describe('why a sandbox ended', () => {
  it('is memory when the kernel killed for it and the process was killed', () => {
    for (const status of [9, exitedWith(137), undefined])
      assert.equal(explainExit(status, true).reason, 'out_of_memory')
    assert.equal(explainExit(exitedWith(1), true).reason, 'crashed')
  })

  it('is a kill when a signal of whoever ends processes ended it', () => {
    assert.deepEqual(explainExit(9, false), {
      reason: 'killed',
      detail: 'Its first process was ended by SIGKILL.',
    })
    assert.equal(explainExit(exitedWith(143), false).reason, 'killed')
  })

  it('is no kill from outside when somebody inside killed the agent', () => {
    assert.deepEqual(explainExit(exitedWith(137), false), {
      reason: 'crashed',
      detail: 'Its agent was ended by SIGKILL.',
    })
  })

  it('is a crash otherwise, with what is known of it', () => {
    assert.deepEqual(explainExit(11, false), {
      reason: 'crashed',
      detail: 'Its first process was ended by SIGSEGV.',
    })
    assert.match(explainExit(exitedWith(7), false).detail, /exited with status 7/)
    assert.match(explainExit(undefined, false).detail, /does not say how/)
  })
})
