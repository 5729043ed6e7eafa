import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { explainExit } from './explain-exit.ts'

const enough = { memory: false, processes: false }
const exitedWith = (code: number) => code << 8

describe('why a sandbox ended', () => {
  it('is memory when the kernel killed a process for lack of it and the first process was killed', () => {
    for (const status of [9, exitedWith(137), undefined])
      assert.equal(explainExit(status, { ...enough, memory: true }).reason, 'out_of_memory')
    assert.equal(explainExit(exitedWith(1), { ...enough, memory: true }).reason, 'crashed')
  })

  it('is a kill when a kill signal ended the first process', () => {
    assert.deepEqual(explainExit(9, enough), {
      reason: 'killed',
      detail: 'Its first process was ended by SIGKILL.',
    })
    assert.equal(explainExit(exitedWith(143), enough).reason, 'killed')
  })

  it('is a crash when somebody inside killed the agent', () => {
    assert.deepEqual(explainExit(exitedWith(137), enough), {
      reason: 'crashed',
      detail: 'Its agent was ended by SIGKILL.',
    })
  })

  it('is too many processes when the kernel rejected new ones and the sandbox crashed', () => {
    for (const status of [9, 11, exitedWith(2), undefined])
      assert.match(explainExit(status, { ...enough, processes: true }).detail, /more processes and threads/)
    const both = { memory: true, processes: true }
    assert.equal(explainExit(9, both).reason, 'out_of_memory')
    assert.equal(explainExit(exitedWith(143), { ...enough, processes: true }).reason, 'killed')
  })

  it('is a crash in all other cases, with the exit status or signal', () => {
    assert.deepEqual(explainExit(11, enough), {
      reason: 'crashed',
      detail: 'Its first process was ended by SIGSEGV.',
    })
    assert.match(explainExit(exitedWith(7), enough).detail, /exited with status 7/)
    assert.match(explainExit(undefined, enough).detail, /does not say how/)
  })
})
