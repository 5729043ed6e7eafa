import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { choose } from './platform.ts'

const trial = (startCpuMs: number, idleCpuMs: number, workCpuMs = 100) => ({
  startCpuMs,
  idleCpuMs,
  workCpuMs,
})

describe('the platform of gVisor', () => {
  it('is systrap if no other costs clearly less', () => {
    assert.equal(choose({ systrap: trial(200, 1), ptrace: trial(300, 1) }).platform, 'systrap')
    const same = trial(200, 1)
    assert.equal(choose({ ptrace: same, kvm: same, systrap: same }).platform, 'systrap')
  })

  it('is systrap even if a busy machine made its start look more expensive', () => {
    assert.equal(choose({ systrap: trial(332, 1, 365), ptrace: trial(197, 2, 456) }).platform, 'systrap')
  })

  it('is ptrace if systrap uses CPU while idle', () => {
    assert.equal(choose({ systrap: trial(200, 30), ptrace: trial(300, 1) }).platform, 'ptrace')
  })

  it('is not one that starts faster and idles as well but makes system calls slow', () => {
    assert.equal(choose({ systrap: trial(220, 0, 60), ptrace: trial(200, 0, 400) }).platform, 'systrap')
  })

  it('is kvm if kvm costs least', () => {
    const trials = { systrap: trial(200, 0), kvm: trial(150, 0, 20), ptrace: trial(300, 0) }
    assert.equal(choose(trials).platform, 'kvm')
  })

  it('is one that works', () => {
    assert.equal(choose({ systrap: { failure: 'no seccomp' }, ptrace: trial(900, 9) }).platform, 'ptrace')
    assert.equal(choose({ systrap: trial(900, 90), kvm: { failure: 'no' } }).platform, 'systrap')
  })

  it('comes with the measurements of every platform', () => {
    const { why } = choose({ systrap: trial(201, 1, 55), kvm: { failure: 'no guest' } })
    assert.match(why, /systrap: 201 ms of CPU to start, 55 .*, 1 per idle second; kvm: .*no guest/)
  })

  it('cannot be chosen if none works, and the error has the reason', () => {
    assert.throws(
      () => choose({ systrap: { failure: 'no seccomp' }, ptrace: { failure: 'no' } }),
      /no seccomp/,
    )
  })
})
