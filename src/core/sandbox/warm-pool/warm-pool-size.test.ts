import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openFixture, request, until } from '../../../../test/support/domain.ts'
import {
  addTemplate,
  createAtOnce,
  createOne,
  passTime,
  poolHas,
  waiting,
} from '../../../../test/support/warm-pool.ts'

describe('the size of the warm pool', () => {
  it('is the number of creates that came at once within the last hour', async () => {
    await using fixture = await openFixture({ warm: 1 })
    await createAtOnce(fixture, 5)
    await poolHas(fixture, 5)
    await passTime(fixture, 30 * 60_000)
    await createOne(fixture)
    await poolHas(fixture, 5)
    await passTime(fixture, 31 * 60_000)
    await poolHas(fixture, 1)
  })

  it('is not the sum of two bursts, if the pool was full in between', async () => {
    const machine = { cpuCount: 2, memoryMB: 1e6, availableMemoryMB: async () => 1e6 }
    await using fixture = await openFixture({ warm: 1, ports: { machine } })
    const full = async () => {
      await passTime(fixture, 10)
      return fixture.warm.count().ready === 20
    }
    await createAtOnce(fixture, 20)
    await until(full)
    await createAtOnce(fixture, 20)
    await until(full)
    await passTime(fixture, 61_000)
    await poolHas(fixture, 20)
  })

  it('does not grow because of rejected creates', async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { service, team } = fixture
    for (let count = 0; count < team.limits.maxSandboxes; count++) await createOne(fixture)
    const ids = await poolHas(fixture, team.limits.maxSandboxes)
    const tries = Array.from({ length: 20 }, () => service.create(team, request()))
    for (const outcome of await Promise.allSettled(tries)) assert.equal(outcome.status, 'rejected')
    assert.deepEqual((await poolHas(fixture, team.limits.maxSandboxes)).sort(), ids.sort())
  })

  /** As a machine with 8 GB whose available memory can be set. */
  const eightGB = (machine: { availableMB: number }) => ({
    cpuCount: 64,
    memoryMB: 8192,
    availableMemoryMB: async () => machine.availableMB,
  })

  it('may exceed the budget while half of the machine’s memory is available, and shrinks to it below a quarter', async () => {
    const machine = { availableMB: 8000 }
    await using fixture = await openFixture({ warm: 1, ports: { machine: eightGB(machine) } })
    await createAtOnce(fixture, 20)
    await poolHas(fixture, 20)
    machine.availableMB = 3000
    await passTime(fixture, 61_000)
    await poolHas(fixture, 20)
    machine.availableMB = 2000
    await passTime(fixture, 61_000)
    // The budget is half of the memory, and each has half a gigabyte. They go in groups of eight.
    await poolHas(fixture, 4)
  })

  it('is within the budget while less than half of the machine’s memory is available', async () => {
    const machine = { availableMB: 4000 }
    await using fixture = await openFixture({ warm: 1, ports: { machine: eightGB(machine) } })
    await createAtOnce(fixture, 20)
    await poolHas(fixture, 8)
    machine.availableMB = 5000
    await passTime(fixture, 61_000)
    await poolHas(fixture, 20)
  })

  it("never exceeds the operator's maximum", async () => {
    await using fixture = await openFixture({ warm: 1, warmMemoryMB: 1536 })
    await createAtOnce(fixture, 20)
    await poolHas(fixture, 3)
  })

  it('is divided if the budget is small, with the most recently used template first', async () => {
    await using fixture = await openFixture({ warm: 2, warmMemoryMB: 1050 })
    const other = await addTemplate(fixture, 'other')
    await createOne(fixture)
    await createOne(fixture)
    const base = await poolHas(fixture, 2)
    await createOne(fixture, 'other')
    const ids = await poolHas(fixture, 2)
    assert.equal(ids.filter((sandboxID) => base.includes(sandboxID)).length, 1)
    await fixture.warm.drop(other.templateID)
    assert.equal((await waiting(fixture)).length, 1)
  })

  it('never exceeds 64 for each CPU, over all templates', async () => {
    const machine = { cpuCount: 1, memoryMB: 1e6, availableMemoryMB: async () => 1e6 }
    const admission = { cpuOvercommit: 1000 }
    await using fixture = await openFixture({ warm: 1, ports: { machine }, admission })
    await addTemplate(fixture, 'other')
    await createAtOnce(fixture, 40)
    await createAtOnce(fixture, 40, 'other')
    await until(async () => {
      await passTime(fixture)
      return fixture.warm.count().ready === 64
    })
    await passTime(fixture, 61_000)
    await poolHas(fixture, 64)
  })

  it('is the minimum of each template after some were stopped for want of memory, until creates ask for more', async () => {
    const machine = { availableMB: 8000 }
    await using fixture = await openFixture({ warm: 1, ports: { machine: eightGB(machine) } })
    await createAtOnce(fixture, 10)
    await poolHas(fixture, 10)
    machine.availableMB = -1
    await passTime(fixture, 61_000)
    await poolHas(fixture, 0)
    machine.availableMB = 8000
    await passTime(fixture, 61_000)
    await poolHas(fixture, 1)
    await createAtOnce(fixture, 3)
    await poolHas(fixture, 3)
  })

  it('leaves each used template its minimum, even if one template takes all the rest', async () => {
    await using fixture = await openFixture({ warm: 2, warmMemoryMB: 5 * 512 })
    const other = await addTemplate(fixture, 'other')
    await createAtOnce(fixture, 9)
    await poolHas(fixture, 5)
    await createAtOnce(fixture, 2, 'other')
    for (let round = 0; round < 3; round++) await passTime(fixture)
    await poolHas(fixture, 5)
    await fixture.warm.drop(other.templateID)
    assert.equal((await waiting(fixture)).length, 3)
  })
})
