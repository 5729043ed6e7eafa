import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { gvisorMemoryMB, gvisorPidsLimits } from './gvisor-limits.ts'

const machine = 190_000
const sizes = { memoryMB: 512, pidsLimit: 4096 }

describe('the processes of a sandbox under gVisor', () => {
  for (const [platform, hostThreads, ownMB] of [
    ['ptrace', 16, 0.65],
    ['systrap', 2, 0.35],
  ] as const) {
    it(`reach the limit inside before the limit on the host, under ${platform}`, () => {
      for (const memoryMB of [128, 512, 2048, 8192]) {
        const { perUser, host } = gvisorPidsLimits({ ...sizes, memoryMB, platform }, machine)
        assert.ok(perUser >= 200, `${perUser}`)
        assert.ok(perUser * hostThreads * 2 < host, 'the limit of the host is out of reach of two users')
        assert.ok(perUser * ownMB < gvisorMemoryMB(memoryMB), 'gVisor itself has the memory for one user')
      }
    })

    it(`leave threads for sixteen sandboxes on a machine with few threads, under ${platform}`, () => {
      const { perUser, host } = gvisorPidsLimits({ ...sizes, platform }, 32_768)
      assert.ok(host * 16 <= 32_768)
      assert.ok(perUser * hostThreads * 2 < host)
    })
  }

  it('are never more than the operator allows', () => {
    assert.equal(
      gvisorPidsLimits({ memoryMB: 8192, pidsLimit: 300, platform: 'systrap' }, machine).perUser,
      75,
    )
  })
})
