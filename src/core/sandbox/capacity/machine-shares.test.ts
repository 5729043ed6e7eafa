import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { failsWith, until } from '../../../../test/support/domain.ts'
import { mebibyte, openScarceMemory } from '../../../../test/support/scarce-memory.ts'

describe('what the operator reads of teams and guards', () => {
  it('is each team’s use and fair share, also while much is left', async () => {
    await using machine = await openScarceMemory()
    const big = await machine.insertTeam('big')
    machine.use(await machine.create(big), 1000)
    machine.use(await machine.create(), 200)
    const { memory, frozen, acts } = await machine.machineShares.read()
    // 4096 MiB in all, of which 1024 are kept free.
    assert.equal(memory.freeBytes, (4096 - 1200) * mebibyte)
    assert.equal(memory.startBytes, 1024 * mebibyte)
    assert.deepEqual(
      memory.teams.map(({ teamID, usedBytes, fairBytes, aboveBytes }) => [
        teamID,
        usedBytes / mebibyte,
        fairBytes / mebibyte,
        aboveBytes,
      ]),
      [
        ['big', 1000, 1536, 0],
        [machine.team.teamID, 200, 1536, 0],
      ],
    )
    assert.deepEqual([frozen, acts], [[], []])
  })

  it('is whom the guard froze and let continue, and why', async () => {
    await using machine = await openScarceMemory()
    const greedy = await machine.insertTeam('greedy')
    const hog = await machine.create(greedy)
    const small = await machine.create()
    await machine.look()
    machine.use(small, 100)
    machine.use(hog, 2900)
    machine.memory.otherMB = 500
    for (let look = 0; look < 5; look++) {
      machine.use(hog, 30)
      await machine.look()
    }
    await until(async () => machine.isFrozen(hog))
    const during = await machine.machineShares.read()
    assert.deepEqual(
      during.frozen.map(({ sandboxID, teamID, guard }) => [sandboxID, teamID, guard]),
      [[hog, 'greedy', 'memory']],
    )
    assert.ok(during.memory.teams[0]!.aboveBytes > 0)
    assert.deepEqual([during.memory.teams[0]!.teamID, during.memory.teams[1]!.aboveBytes], ['greedy', 0])
    machine.memory.otherMB = -1000
    await machine.look(5000)
    await machine.look()
    await until(async () => !machine.isFrozen(hog))
    const after = await machine.machineShares.read()
    assert.deepEqual(after.frozen, [])
    assert.deepEqual(
      after.acts.map(({ guard, act, sandboxID, teamID, count }) => [guard, act, sandboxID, teamID, count]),
      [
        ['memory', 'continued', hog, 'greedy', 1],
        ['memory', 'frozen', hog, 'greedy', 1],
      ],
    )
    assert.match(
      after.acts[1]!.why,
      /^\d+ MiB of memory were left\. The team used \d+ MiB; its fair share was \d+ MiB\.$/,
    )
  })

  it('is which requests were refused, by team', async () => {
    await using machine = await openScarceMemory()
    const greedy = await machine.insertTeam('greedy')
    const hog = await machine.create(greedy)
    await machine.create()
    machine.use(hog, 3200)
    await machine.look()
    await machine.look()
    const refused = assert.rejects(machine.create(greedy), failsWith('unavailable'))
    await machine.settle()
    machine.clock.advance(1000)
    await refused
    assert.throws(() => machine.memoryGuard.require('greedy'))
    const { acts } = await machine.machineShares.read()
    assert.deepEqual(
      acts.map(({ guard, act, sandboxID, teamID, why }) => [guard, act, sandboxID, teamID, why]),
      [
        [
          'memory',
          'refused',
          undefined,
          'greedy',
          '896 MiB of memory were left, too little for a build of this team.',
        ],
        ['starts', 'refused', undefined, 'greedy', 'The memory of this server is used up.'],
      ],
    )
  })
})
