/**
 * What each team uses of this machine's memory, disk and connections, its fair share of them, and what the guards did, for the operator. The
 * guards measure by team only while little is left, to act on it; this measures whenever somebody asks, and acts on nothing.
 */
import { JoinedWork } from '../../../lib/keyed-lock.ts'
import { canMeasureUse, canShareConnections, type Driver } from '../../ports/driver.ts'
import { sizeOf } from './disk-guard.ts'
import type { DiskLevels } from './disk-levels.ts'
import type { FrozenSandboxes } from './frozen-sandboxes.ts'
import type { GuardActs, NotedAct, ResourceGuard } from './guard-acts.ts'
import type { MemoryLevels } from './memory-levels.ts'
import type { SandboxTeams } from './sandbox-teams.ts'
import { divideByTeam, noTeam, type TeamShare } from './team-share.ts'

type MachineSharesParts = {
  driver: Driver
  sandboxTeams: Pick<SandboxTeams, 'of'>
  /** Bytes on this disk that teams use outside of running sandboxes: snapshots and volumes. */
  teamBytes: () => Promise<ReadonlyMap<string, number>>
  /** Bytes of memory that sandboxes can still get. */
  availableBytes: () => Promise<number>
  /** Free bytes on the disk of the data folder, and how many of them are promised to volumes. */
  freeBytes: () => Promise<number>
  promisedBytes: () => Promise<number>
  frozen: Pick<FrozenSandboxes, 'list'>
  acts: Pick<GuardActs, 'list'>
  levels: { memory: MemoryLevels; disk: DiskLevels }
}

export type ResourceShares = {
  freeBytes: number
  /** With less than this free, teams above their shares start nothing. */
  startBytes: number
  /** Who has to give back most first, then who uses most. */
  teams: TeamShare[]
}

type ConnectionCounts = {
  /** Maximum number of a team. */
  perTeam: number
  /** Who has most open first. */
  teams: { teamID: string; count: number }[]
}

type SharesOfMachine = {
  memory: ResourceShares
  disk: ResourceShares
  /** Undefined: this machine cannot count them. */
  connections: ConnectionCounts | undefined
  /** Also those that were frozen before this process started. */
  frozen: { sandboxID: string; teamID: string | null; guard: ResourceGuard; since: number }[]
  /** Since this process started, the latest first. */
  acts: NotedAct[]
}

type Use = { sandboxID: string; bytes: number }
type Levels = Pick<MemoryLevels, 'startBytes' | 'thawBytes'>

export class MachineShares {
  readonly #parts: MachineSharesParts
  readonly #work = new JoinedWork<SharesOfMachine>()

  constructor(parts: MachineSharesParts) {
    this.#parts = parts
  }

  /** Those who ask at the same time share one measurement. */
  read(): Promise<SharesOfMachine> {
    return this.#work.run('', () => this.#read())
  }

  async #read(): Promise<SharesOfMachine> {
    const {
      driver,
      sandboxTeams,
      availableBytes,
      freeBytes,
      promisedBytes,
      teamBytes,
      frozen,
      acts,
      levels,
    } = this.#parts
    const measured = canMeasureUse(driver) ? driver : undefined
    const inMemory = ((await measured?.memoryUse()) ?? []).map(({ sandboxID, usedBytes: bytes }) => ({
      sandboxID,
      bytes,
    }))
    const availableNow = await availableBytes()
    const diskUses = (await measured?.diskUse()) ?? []
    const unwritten = sumOf(diskUses.map(({ unwrittenBytes }) => unwrittenBytes))
    const freeNow = (await freeBytes()) - (await promisedBytes()) - unwritten
    const stopped = frozen.list()
    const connections = canShareConnections(driver) ? await driver.connectionUse() : undefined
    const opened = connections?.sandboxes ?? []
    const ids = [...inMemory, ...diskUses, ...stopped, ...opened].map(({ sandboxID }) => sandboxID)
    const teamOf = await sandboxTeams.of([...new Set(ids)])
    return {
      memory: divide(inMemory, teamOf, availableNow, levels.memory),
      disk: divide(diskUses.map(sizeOf), teamOf, freeNow, levels.disk, await teamBytes()),
      connections: connections && { perTeam: connections.perOwner, teams: countByTeam(opened, teamOf) },
      frozen: stopped.map((one) => ({ ...one, teamID: teamOf.get(one.sandboxID) ?? null })),
      acts: acts.list(),
    }
  }
}

function divide(
  uses: readonly Use[],
  teamOf: ReadonlyMap<string, string>,
  freeBytes: number,
  { startBytes, thawBytes }: Levels,
  otherBytes: ReadonlyMap<string, number> = new Map(),
): ResourceShares {
  const known = uses.flatMap(({ sandboxID, bytes: usedBytes }) => {
    const teamID = teamOf.get(sandboxID)
    return teamID === undefined ? [] : [{ sandboxID, teamID, usedBytes }]
  })
  const allBytes = sumOf(uses.map(({ bytes }) => bytes))
  const unknownBytes = allBytes - sumOf(known.map(({ usedBytes }) => usedBytes))
  const total = freeBytes + allBytes + sumOf([...otherBytes.values()])
  const resource = { sharedBytes: total - startBytes, usableBytes: total - thawBytes, unknownBytes }
  const { teams } = divideByTeam(known, resource, otherBytes)
  teams.sort((a, b) => b.aboveBytes - a.aboveBytes || b.usedBytes - a.usedBytes)
  return { freeBytes: Math.max(0, freeBytes), startBytes, teams }
}

function countByTeam(
  sandboxes: readonly { sandboxID: string; count: number }[],
  teamOf: ReadonlyMap<string, string>,
): ConnectionCounts['teams'] {
  const counts = new Map<string, number>()
  for (const { sandboxID, count } of sandboxes) {
    const teamID = teamOf.get(sandboxID) ?? noTeam
    if (teamID !== noTeam) counts.set(teamID, (counts.get(teamID) ?? 0) + count)
  }
  return [...counts].map(([teamID, count]) => ({ teamID, count })).sort((a, b) => b.count - a.count)
}

const sumOf = (amounts: readonly number[]): number => amounts.reduce((sum, amount) => sum + amount, 0)
