import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { failsWith, until } from '../../../../test/support/domain.ts'
import type { AppError } from '../../../lib/app-error.ts'
import { ManualClock } from '../../../lib/clock.ts'
import { Admission, type AdmissionSettings } from './admission.ts'

function openAdmission(changes: Partial<AdmissionSettings> = {}) {
  const clock = new ManualClock()
  const machine = {
    active: { cpuCount: 0, memoryMB: 0 },
    /** Unset: one team has all that is active. */
    byTeam: undefined as { teamID: string; cpuCount: number; memoryMB: number }[] | undefined,
    availableMB: 10_000,
    diskBytes: 1e12,
    /** Teams that use less memory than their fair share. */
    belowShare: new Set<string>(),
  }
  const unreadable = new Set<keyof typeof machine>()
  const read = <Key extends keyof typeof machine>(key: Key): (typeof machine)[Key] => {
    if (unreadable.has(key)) throw new Error(`${key} cannot be read`)
    return machine[key]
  }
  const gpus = { model: 'M', total: 2, free: 2, mostPerSandbox: 2 }
  const spare = { count: 0, givenUp: [] as number[] }
  const settings = {
    memoryOvercommit: 2,
    cpuOvercommit: 4,
    minFreeMemoryMB: 500,
    startsAtOnce: 2,
    waitMs: 45_000,
    ...changes,
  }
  const admission = new Admission({
    machine: { cpuCount: 2, memoryMB: 4000, availableMemoryMB: async () => read('availableMB') },
    freeBytes: async () => read('diskBytes'),
    sandboxes: {
      sumActive: async () => read('active'),
      sumActiveByTeam: async () => read('byTeam') ?? [{ teamID: 'a', ...read('active') }],
    },
    minFreeMemoryMB: (teamID) => (machine.belowShare.has(teamID) ? 100 : settings.minFreeMemoryMB),
    spare: {
      sum: () => ({ cpuCount: 0, memoryMB: spare.count * 100 }),
      giveUp: async (count) => {
        const used = Math.min(count, spare.count)
        spare.count -= used
        spare.givenUp.push(used)
        return used > 0
      },
    },
    gpus: () => gpus,
    settings,
    clock,
  })
  const order: string[] = []
  const releases: (() => void)[] = []
  return {
    clock,
    machine,
    unreadable,
    spare,
    gpus,
    order,
    releases,
    enter: (teamID: string, sizes = {}, signal = new AbortController().signal) =>
      admission.enter({ teamID, cpuCount: 1, memoryMB: 100, ...sizes }, signal).then((release) => {
        order.push(teamID)
        releases.push(release)
      }),
    started: (count: number) => until(async () => order.length === count),
    /** Everything that could start has started. */
    quiesce: async () => {
      for (let round = 0; round < 50; round++) await new Promise((resolve) => setImmediate(resolve))
    },
  }
}

describe('admission', () => {
  it('starts no more sandboxes at once than allowed, and the next as starts end', async () => {
    const world = openAdmission()
    for (let count = 0; count < 5; count++) void world.enter('a')
    await world.started(2)
    await world.quiesce()
    assert.equal(world.order.length, 2)
    world.releases[0]!()
    await world.started(3)
    for (const release of world.releases.slice(1)) release()
    await world.started(5)
  })

  it('lets teams take turns, however many starts one of them requests', async () => {
    const world = openAdmission({ startsAtOnce: 1 })
    for (let count = 0; count < 4; count++) void world.enter('greedy')
    await world.started(1)
    void world.enter('modest')
    for (let count = 1; count <= 4; count++) {
      world.releases[count - 1]!()
      await world.started(count + 1)
    }
    assert.deepEqual(world.order, ['greedy', 'greedy', 'modest', 'greedy', 'greedy'])
  })

  for (const [what, fill, empty, reason] of [
    [
      'promised memory',
      { active: { cpuCount: 0, memoryMB: 7950 } },
      { active: { cpuCount: 0, memoryMB: 0 } },
      /memory that this server may allocate/,
    ],
    [
      'promised CPUs',
      { active: { cpuCount: 8, memoryMB: 0 } },
      { active: { cpuCount: 7, memoryMB: 0 } },
      /CPUs that this server may allocate/,
    ],
    ['available memory', { availableMB: 499 }, { availableMB: 500 }, /memory of this server is used up/],
    ['disk space', { diskBytes: 1e6 }, { diskBytes: 1e12 }, /disk of this server is full/],
  ] as const) {
    it(`waits for ${what}, and starts when there is enough`, async () => {
      const world = openAdmission()
      Object.assign(world.machine, fill)
      const entered = world.enter('a')
      await world.quiesce()
      assert.equal(world.order.length, 0)
      Object.assign(world.machine, empty)
      world.clock.advance(500)
      await entered
    })

    it(`rejects a start that waited too long for ${what}, with when to try again`, async () => {
      const world = openAdmission()
      Object.assign(world.machine, fill)
      const entered = world.enter('a')
      await world.quiesce()
      world.clock.advance(45_000)
      await assert.rejects(entered, (error: Error & { retry?: object }) => {
        assert.match(error.message, reason)
        assert.match(error.message, /waited 45 s for its turn and was not started; try again in 5 s/)
        assert.deepEqual(error.retry, { should: true, afterSeconds: 5 })
        return failsWith('unavailable')(error)
      })
      Object.assign(world.machine, empty)
      await world.enter('a')
    })
  }

  it('counts starts in progress as allocated', async () => {
    const world = openAdmission()
    await world.enter('a', { memoryMB: 7950 })
    void world.enter('a')
    await world.quiesce()
    assert.deepEqual(world.order, ['a'])
    world.releases[0]!()
    await world.started(2)
  })

  it('counts a start that ends while the capacity is measured', async () => {
    const world = openAdmission({ startsAtOnce: 3 })
    await world.enter('a', { memoryMB: 7950 })
    void world.enter('a')
    // The sum was read before the row of the first one ran.
    world.releases[0]!()
    world.machine.active = { cpuCount: 1, memoryMB: 7950 }
    await world.quiesce()
    assert.deepEqual(world.order, ['a'])
  })

  it('stops spare sandboxes for a start that does not fit, twice as many each time, and no more once it fits', async () => {
    const world = openAdmission()
    world.spare.count = 80
    await world.enter('a', { memoryMB: 1000 })
    assert.deepEqual(world.spare, { count: 65, givenUp: [1, 2, 4, 8] })
  })

  it('does not let promises of one team lock out another, up to an equal part for each', async () => {
    const world = openAdmission({ startsAtOnce: 9 })
    world.machine.active = { cpuCount: 8, memoryMB: 8000 }
    for (const teamID of ['a', 'b', 'b']) void world.enter(teamID, { memoryMB: 2000 }).catch(() => {})
    await world.quiesce()
    assert.deepEqual(world.order, ['b', 'b'])
    // Half of 8000 MB is promised to it now, by starts under way and by rows alike.
    void world.enter('b').catch(() => {})
    await world.quiesce()
    assert.deepEqual(world.order, ['b', 'b'])
    for (const memoryMB of [2600, 100]) void world.enter('c', { memoryMB }).catch(() => {})
    await world.quiesce()
    assert.deepEqual(world.order, ['b', 'b', 'c'])
  })

  it('lets a team start that uses less memory than its part, when others have to wait for memory', async () => {
    const world = openAdmission({ startsAtOnce: 9 })
    world.machine.availableMB = 120
    world.machine.belowShare.add('b')
    for (const teamID of ['a', 'b']) void world.enter(teamID).catch(() => {})
    await world.quiesce()
    assert.deepEqual(world.order, ['b'])
    world.machine.availableMB = 99
    void world.enter('b').catch(() => {})
    await world.quiesce()
    assert.deepEqual(world.order, ['b'])
  })

  it('lets a small start of another team overtake one that does not fit', async () => {
    const world = openAdmission()
    void world.enter('big', { memoryMB: 9000 }).catch(() => {})
    await world.enter('small')
    assert.deepEqual(world.order, ['small'])
  })

  it('forgets a waiting start whose signal aborts', async () => {
    const world = openAdmission({ startsAtOnce: 1 })
    await world.enter('a')
    const abort = new AbortController()
    const waiting = world.enter('b', {}, abort.signal)
    await world.quiesce()
    abort.abort(new Error('killed'))
    await assert.rejects(waiting, /killed/)
    world.releases[0]!()
    await world.enter('c')
    assert.deepEqual(world.order, ['a', 'c'])
  })

  it('uses the figures that it could read if others could not be read', async () => {
    const all = ['active', 'availableMB', 'diskBytes'] as const
    for (const [short, changes] of [
      ['active', { active: { cpuCount: 0, memoryMB: 8000 } }],
      ['availableMB', { availableMB: 100 }],
      ['diskBytes', { diskBytes: 1e6 }],
    ] as const) {
      const world = openAdmission()
      Object.assign(world.machine, changes)
      for (const other of all) if (other !== short) world.unreadable.add(other)
      void world.enter('a')
      await world.quiesce()
      assert.equal(world.order.length, 0, short)
      world.unreadable.add(short)
      world.clock.advance(500)
      await world.started(1)
    }
  })

  it('waits for a free GPU, and lets other starts of the same team overtake meanwhile', async () => {
    const world = openAdmission({ startsAtOnce: 9 })
    world.gpus.free = 1
    void world.enter('one', { gpuCount: 1 })
    await world.started(1)
    // It is under way and has its GPU: another one must not count on the same.
    void world.enter('two', { gpuCount: 1 })
    void world.enter('two', { memoryMB: 200 })
    await world.started(2)
    await world.quiesce()
    assert.deepEqual(world.order, ['one', 'two'])
    world.gpus.free = 0
    world.releases[0]!()
    await world.quiesce()
    assert.equal(world.order.length, 2)
    world.gpus.free = 1
    world.releases[1]!()
    await world.started(3)
  })

  it('rejects with the reason and a time to retry if all GPUs are in use, and gives up no spare sandbox for one', async () => {
    const world = openAdmission()
    Object.assign(world.gpus, { free: 0 })
    world.spare.count = 3
    const waiting = world.enter('a', { gpuCount: 1 })
    await world.quiesce()
    world.clock.advance(45_000)
    await assert.rejects(waiting, (error: AppError) => {
      assert.match(error.message, /^All 2 GPUs of this server are in use\. .* try again in 5 s\.$/)
      assert.deepEqual([error.code, error.retry?.should], ['unavailable', true])
      return true
    })
    assert.equal(world.spare.count, 3)
    Object.assign(world.gpus, { free: 1 })
    const both = world.enter('a', { gpuCount: 2 })
    await world.quiesce()
    world.clock.advance(45_000)
    await assert.rejects(both, /1 of 2 GPUs of this server are free, and the sandbox needs 2/)
  })
})
