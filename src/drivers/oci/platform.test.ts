import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { better } from './platform.ts'

const trial = (startCpuMs: number, idleCpuMs: number) => ({ startCpuMs, idleCpuMs })

describe('the platform of gVisor', () => {
  it('is systrap where it costs no more', () => {
    assert.equal(better(trial(200, 1), trial(300, 1)), 'systrap')
    assert.equal(better(trial(200, 1), trial(200, 1)), 'systrap')
  })

  it('is ptrace where systrap burns time while nothing happens', () => {
    assert.equal(better(trial(200, 30), trial(300, 1)), 'ptrace')
  })

  it('is the one that works', () => {
    assert.equal(better({ failure: 'no seccomp' }, trial(900, 9)), 'ptrace')
    assert.equal(better(trial(900, 90), { failure: 'no ptrace' }), 'systrap')
  })

  it('cannot be chosen where none works, and the reason is told', () => {
    assert.throws(() => better({ failure: 'no seccomp' }, { failure: 'no ptrace' }), /no seccomp/)
  })
})
