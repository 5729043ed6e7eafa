/** A machine of 4 GiB whose memory can be made scarce, with the hands to take memory and to look. */
import { defaultTeamLimits, type Team } from '../../src/core/team/team.ts'
import { type Fixture, type FixtureOptions, openFixture, request } from './domain.ts'

export const mebibyte = 1024 * 1024
/** Levels: start 1024, thaw 768, freeze 512, end 256 MiB. Sandboxes are promised 512 MiB each. */
const minFreeMemoryMB = 1024

type Memory = { otherMB: number; isBroken: boolean; diskMB: number }

export async function openScarceMemory(options: Partial<FixtureOptions> = {}) {
  const memory: Memory = { otherMB: 0, isBroken: false, diskMB: 1e6 }
  // Set once the driver is there.
  let used = () => 0
  const fixture = await openFixture({
    ...options,
    admission: { minFreeMemoryMB, waitMs: 1000 },
    ports: {
      freeBytes: async () => memory.diskMB * mebibyte,
      machine: {
        cpuCount: 64,
        memoryMB: 4096,
        availableMemoryMB: async () => {
          if (memory.isBroken) throw new Error('EIO')
          return 4096 - memory.otherMB - used()
        },
      },
    },
  })
  used = () =>
    [...fixture.driver.world.memoryUses.values()].reduce((total, bytes) => total + bytes, 0) / mebibyte
  // The first look finds that the next ones have to be close.
  await fixture.memoryGuard.look()
  return { ...fixture, memory, ...handsOf(fixture) }
}

export function handsOf({ driver, memoryGuard, clock, service, team, events, stores }: Fixture) {
  const settle = async () => {
    for (let turn = 0; turn < 30; turn++) await new Promise((resolve) => setImmediate(resolve))
    // Whatever has gone takes no memory.
    for (const id of driver.world.memoryUses.keys())
      if (!driver.world.sandboxes.has(id)) driver.world.memoryUses.delete(id)
  }
  const isFrozen = (sandboxID: string) => driver.world.sandboxes.get(sandboxID)?.frozen === true
  return {
    look: async (afterMs = 200) => {
      clock.advance(afterMs)
      await memoryGuard.look()
      await settle()
    },
    create: async (of = team) => (await service.create(of, request())).sandboxID,
    /** Another team, which may have many sandboxes. */
    insertTeam: async (teamID: string): Promise<Team> => {
      const limits = { ...defaultTeamLimits, maxSandboxes: 50 }
      const other = { ...team, teamID, slug: teamID, name: teamID, limits }
      await stores.teams.insertTeam(other)
      return other
    },
    /** Frozen sandboxes take nothing. */
    use: (sandboxID: string, megabytes: number) => {
      if (isFrozen(sandboxID)) return
      driver.world.memoryUses.set(
        sandboxID,
        (driver.world.memoryUses.get(sandboxID) ?? 0) + megabytes * mebibyte,
      )
    },
    isFrozen,
    settle,
    eventsOf: (sandboxID: string) => events.filter((line) => line.startsWith(sandboxID)).join('\n'),
    rowOf: (sandboxID: string) => stores.sandboxes.find(sandboxID),
  }
}
