/** What the guard of the memory does between teams: a team below its fair share never pays for another. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { until } from '../../../../test/support/domain.ts'
import { openScarceMemory } from '../../../../test/support/scarce-memory.ts'

/** Greedy sandboxes of one team and a small one of another, all promised the same. */
async function openTeams(options: Parameters<typeof openScarceMemory>[0] = {}) {
  const machine = await openScarceMemory(options)
  const greedy = await machine.insertTeam('greedy')
  const hogs: string[] = []
  for (let count = 0; count < 4; count++) hogs.push(await machine.create(greedy))
  const small = await machine.create()
  await machine.look()
  const stateOf = async (sandboxID: string) => (await machine.rowOf(sandboxID))?.state
  return {
    ...machine,
    greedy,
    hogs,
    small,
    stateOf,
    /** One look after another, with what happens before each. */
    looks: async (count: number, before: () => void = () => {}, afterMs = 200) => {
      for (let time = 0; time < count; time++) {
        before()
        await machine.look(afterMs)
        assert.equal(await stateOf(small), 'running')
        assert.equal(machine.isFrozen(small), false)
      }
    },
    hogStates: async () => Promise.all(hogs.map(stateOf)),
    [Symbol.asyncDispose]: () => machine[Symbol.asyncDispose](),
  }
}

for (const snapshotMemory of [true, false]) {
  describe(`memory between teams, ${snapshotMemory ? 'with' : 'without'} memory snapshots`, () => {
    it('is taken back from the team that uses most, although another one uses more than it was promised', async () => {
      await using machine = await openTeams({ snapshotMemory })
      // Each of them is promised 512 MB. Those of the greedy team keep far below that, and use most of the machine.
      machine.use(machine.small, 600)
      for (const hog of machine.hogs) machine.use(hog, 400)
      machine.memory.otherMB = 1200
      await machine.looks(20, () => {
        for (const hog of machine.hogs) machine.use(hog, 20)
        machine.use(machine.small, 5)
      })
      assert.ok(machine.hogs.some((hog) => machine.isFrozen(hog)))
      await machine.looks(60, () => machine.use(machine.small, 5), 500)
    })

    it('comes back from a team that has stopped to grow, as soon as another needs its part', async () => {
      await using machine = await openTeams({ snapshotMemory })
      for (const hog of machine.hogs) machine.use(hog, 850)
      await machine.looks(30, () => machine.use(machine.small, 30))
      await until(async () => (await machine.hogStates()).some((state) => state !== 'running'))
    })

    it('lets a team below its share create sandboxes, however much another uses', async () => {
      await using machine = await openTeams({ snapshotMemory })
      for (const hog of machine.hogs) machine.use(hog, 850)
      await machine.looks(3)
      await machine.create()
      await assert.rejects(
        async () => {
          const created = machine.create(machine.greedy)
          created.catch(() => {})
          await machine.settle()
          machine.clock.advance(1000)
          return created
        },
        { code: 'unavailable' },
      )
      machine.memoryGuard.require(machine.team.teamID)
      assert.throws(() => machine.memoryGuard.require('greedy'), { code: 'unavailable' })
    })

    it('is taken in time even if a small sandbox takes its part at once', async () => {
      await using machine = await openTeams({ snapshotMemory })
      for (const hog of machine.hogs) machine.use(hog, 850)
      await machine.looks(2)
      await machine.looks(6, () => machine.use(machine.small, 120))
      await until(async () => (await machine.hogStates()).includes('ended'))
      assert.ok((await machine.hogStates()).filter((state) => state === 'ended').length < 3)
    })

    it('ends as many small sandboxes of the greedy team as hold the memory that is needed', async () => {
      await using machine = await openTeams({ snapshotMemory })
      const many: string[] = []
      for (let count = 0; count < 30; count++) many.push(await machine.create(machine.greedy))
      for (const hog of [...many, ...machine.hogs]) machine.use(hog, 105)
      await machine.looks(2)
      await machine.looks(3, () => machine.use(machine.small, 140))
      await until(async () => {
        const states = await Promise.all([...many, ...machine.hogs].map(machine.stateOf))
        return states.filter((state) => state === 'ended').length >= 2
      })
    })
  })
}

describe('memory between teams', () => {
  it('leaves a team frozen no longer than it is above its share', async () => {
    await using machine = await openTeams()
    const second = await machine.insertTeam('second')
    const other = await machine.create(second)
    machine.use(machine.hogs[0]!, 1400)
    machine.use(other, 1600)
    machine.memory.otherMB = 400
    await machine.look()
    for (let time = 0; time < 3; time++) {
      for (const one of [machine.hogs[0]!, other]) machine.use(one, 60)
      await machine.look()
    }
    assert.deepEqual([machine.isFrozen(machine.hogs[0]!), machine.isFrozen(other)], [true, true])
    // What it gave back is taken by others at once: memory stays short.
    machine.driver.world.memoryUses.set(machine.hogs[0]!, 300 * 1024 * 1024)
    machine.driver.beforeSnapshot = async () => {
      throw new Error('ENOSPC')
    }
    machine.use(machine.small, 980)
    await machine.look(3000)
    await machine.look(200)
    assert.deepEqual([machine.isFrozen(machine.hogs[0]!), machine.isFrozen(other)], [false, true])
  })

  it('ends no build of another team, and that of a team above its share first', async () => {
    await using machine = await openTeams()
    const { service, team, catalog } = machine
    const { snapshotID } = await service.snapshot(team, machine.small, { memory: false })
    const { build } = (await catalog.resolve(team, snapshotID))!
    const own = await machine.buildSandboxes.open(build, new AbortController().signal)
    machine.use(machine.hogs[0]!, 1500)
    machine.memory.otherMB = 1700
    try {
      await machine.looks(10, () => {
        machine.use(machine.hogs[0]!, 50)
        machine.use(own.sandboxID, 30)
      })
      assert.ok(machine.driver.world.sandboxes.has(own.sandboxID))
    } finally {
      await own.close()
    }
  })

  it('acts against nobody whose team is not known, and finds it out without waiting for the database', async () => {
    await using machine = await openTeams()
    const late = Promise.withResolvers<void>()
    machine.faults.before = (method) => (method === 'teamsOf' ? late.promise : undefined)
    const newcomer = await machine.create(machine.greedy)
    machine.use(newcomer, 2900)
    machine.memory.otherMB = 900
    const looked = machine.memoryGuard.look()
    await machine.settle()
    machine.clock.advance(200)
    await looked
    assert.equal(machine.isFrozen(newcomer), false)
    late.resolve()
    await machine.settle()
    machine.memory.otherMB = 900
    for (let time = 0; time < 3; time++) {
      machine.use(newcomer, 20)
      await machine.look()
    }
    assert.equal(machine.isFrozen(newcomer), true)
  })
})
