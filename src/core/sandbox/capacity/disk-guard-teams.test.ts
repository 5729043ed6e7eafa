/** What the guard of the disk does between teams: a team below its fair share never pays for another. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { failsWith, openFixture, request, until } from '../../../../test/support/domain.ts'
import { defaultTeamLimits } from '../../team/team.ts'
import { diskLevels } from './disk-levels.ts'

const mebibyte = 1024 * 1024
const gibibyte = 1024 * mebibyte

/** A disk of 8 GiB of which the guard keeps 256 MiB: start 1024, thaw 768, freeze 512, fair start 256, end 128 MiB. */
async function openDisk(reserve?: { isThere: () => Promise<boolean> }) {
  const written = new Map<string, number>()
  const fixture = await openFixture({
    diskLevels: diskLevels(1e12, 256),
    ports: {
      freeBytes: async () => 8 * gibibyte - [...written.values()].reduce((total, bytes) => total + bytes, 0),
      ...(reserve && { diskReserve: { giveUp: async () => {}, restore: async () => false, ...reserve } }),
    },
  })
  const { clock, diskGuard, driver, service, stores, team } = fixture
  const greedy = { ...team, teamID: 'greedy', slug: 'greedy', name: 'greedy', limits: defaultTeamLimits }
  await stores.teams.insertTeam(greedy)
  const settle = async () => {
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
    for (const id of written.keys()) if (!driver.world.sandboxes.has(id)) written.delete(id)
  }
  const look = async () => {
    clock.advance(200)
    await diskGuard.look()
    await settle()
  }
  const create = async (of = team) => (await service.create(of, request())).sandboxID
  const [hog, small] = [await create(greedy), await create()]
  await look()
  return {
    ...fixture,
    ...{ greedy, hog, small, look, create },
    isFrozen: (sandboxID: string) => driver.world.sandboxes.get(sandboxID)?.frozen === true,
    stateOf: async (sandboxID: string) => (await stores.sandboxes.find(sandboxID))?.state,
    write: (sandboxID: string, megabytes: number) => {
      if (driver.world.sandboxes.get(sandboxID)?.frozen) return
      const bytes = (written.get(sandboxID) ?? 0) + megabytes * mebibyte
      written.set(sandboxID, bytes)
      driver.diskUses.set(sandboxID, { allocatedBytes: bytes, unwrittenBytes: 0 })
    },
    [Symbol.asyncDispose]: () => fixture[Symbol.asyncDispose](),
  }
}

describe('the disk between teams', () => {
  it('is full because of a team that has stopped to write: who writes little goes on, creates and pauses', async () => {
    await using disk = await openDisk()
    disk.write(disk.hog, 7500)
    await disk.look()
    assert.throws(() => disk.diskGuard.require('greedy'), failsWith('no_space'))
    const [refused] = disk.acts.list()
    assert.deepEqual([refused?.guard, refused?.act, refused?.teamID], ['disk', 'refused', 'greedy'])
    assert.match(refused!.why, /^692 MiB of disk space were left, and 1024 MiB were needed\.$/)
    for (let time = 0; time < 10; time++) {
      disk.write(disk.small, 15)
      await disk.look()
      assert.equal(disk.isFrozen(disk.small), false)
    }
    const other = await disk.create()
    await disk.service.pause(disk.team, other, { memory: true, requireHealthyAgent: false })
    await assert.rejects(disk.create(disk.greedy), failsWith('no_space'))
    assert.equal(await disk.stateOf(disk.hog), 'running')
  })

  it('lets a small team create and resume also while the guard looks', async () => {
    await using disk = await openDisk()
    disk.write(disk.hog, 7500)
    await disk.look()
    const { driver, diskGuard, team, service } = disk
    const measure = driver.diskUse.bind(driver)
    const measured = Promise.withResolvers<void>()
    driver.diskUse = () => measured.promise.then(measure)
    const looked = disk.look()
    await new Promise((resolve) => setImmediate(resolve))
    try {
      assert.doesNotThrow(() => diskGuard.require(team.teamID))
      assert.ok(await service.create(team, request()))
      assert.throws(() => diskGuard.require('greedy'), failsWith('no_space'))
    } finally {
      measured.resolve()
      await looked
    }
  })

  it('is given back by the team furthest above its share if one below needs it', async () => {
    await using disk = await openDisk({ isThere: async () => false })
    disk.write(disk.hog, 7500)
    for (let time = 0; time < 40; time++) {
      disk.write(disk.small, 20)
      await disk.look()
      assert.deepEqual([disk.isFrozen(disk.small), await disk.stateOf(disk.small)], [false, 'running'])
    }
    await until(async () => (await disk.stateOf(disk.hog)) === 'ended')
  })

  it('freezes the writers of a team above its share, and none of a team below', async () => {
    await using disk = await openDisk()
    disk.write(disk.hog, 7400)
    for (let time = 0; time < 5; time++) {
      for (const one of [disk.hog, disk.small]) disk.write(one, 60)
      await disk.look()
    }
    assert.deepEqual([disk.isFrozen(disk.hog), disk.isFrozen(disk.small)], [true, false])
  })

  it('counts paused sandboxes for their team', async () => {
    await using disk = await openDisk()
    const before = await disk.create(disk.greedy)
    await disk.service.pause(disk.greedy, before, { memory: true, requireHealthyAgent: false })
    await disk.look()
    disk.clock.advance(5000)
    await disk.look()
    await disk.look()
    assert.ok(disk.diskGuard.isBelowFairShare('greedy'))
    const shares = disk.diskGuard.teamShares.map(({ teamID, usedBytes }) => [teamID, usedBytes])
    assert.deepEqual(shares[0], ['greedy', 1])
  })
})
