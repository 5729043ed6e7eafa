/**
 * Divides a resource of the machine, memory or disk, first between teams and then between the sandboxes of a team, by what
 * they use and not by what they were promised. Whoever uses less than others lends them the rest and gets it back first.
 */

/** Owner of sandboxes that belong to no team: those of the warm pool, and those whose row is gone. It has no share. */
export const noTeam = ''

export type ResourceUse = {
  sandboxID: string
  teamID: string
  usedBytes: number
  /** What it will use in a moment at its present pace. Missing: what it uses now. */
  soonBytes?: number
}

type Resource = {
  /** The part of all that sandboxes use or can still get that is divided into fair shares. */
  sharedBytes: number
  /** What may be in use before somebody has to give something back. */
  usableBytes: number
  /**
   * In use by sandboxes whose team is not known yet. They take from what others may use, and from nobody's fair share.
   * Missing: there are none.
   */
  unknownBytes?: number
}

export type TeamShare = {
  teamID: string
  usedBytes: number
  /** An equal part of what is shared. A team that uses no more than this is not touched for another team's sake. */
  fairBytes: number
  /** Bytes that the team has to give back. */
  aboveBytes: number
}

type BeyondShare = { teamID: string; bytes: number; usedBytes: number }

export type TeamShares = {
  /** The team furthest above its share first. */
  teams: TeamShare[]
  /** Sandboxes in the order in which they have to give something back, the first first. */
  beyond: Map<string, BeyondShare>
}

export const noShares: TeamShares = { teams: [], beyond: new Map() }

/** `otherBytes`: what teams use outside of sandboxes. */
export function divideByTeam(
  uses: readonly ResourceUse[],
  { sharedBytes, usableBytes, unknownBytes = 0 }: Resource,
  otherBytes: ReadonlyMap<string, number> = new Map(),
): TeamShares {
  const sandboxesOf = Map.groupBy(uses, ({ teamID }) => teamID)
  const teamIDs = [...new Set([...sandboxesOf.keys(), ...otherBytes.keys()])].filter((id) => id !== noTeam)
  const fairBytes = Math.max(0, sharedBytes) / Math.max(1, teamIDs.length)
  const sums = teamIDs.map((teamID) => {
    const own = sandboxesOf.get(teamID) ?? []
    const other = otherBytes.get(teamID) ?? 0
    const usedBytes = other + own.reduce((total, use) => total + use.usedBytes, 0)
    return {
      teamID,
      own,
      other,
      usedBytes,
      soonBytes: other + own.reduce((total, use) => total + soon(use), 0),
    }
  })
  const level = levelOf(
    sums.map(({ soonBytes }) => soonBytes),
    Math.max(0, usableBytes - unknownBytes),
  )
  // A team that is alone is asked to give back for its own sake.
  const isAlone = teamIDs.length === 1 && unknownBytes === 0
  const minBytes = Math.max(isAlone ? 0 : fairBytes, smallBytes(sums))
  const teams = sums
    .map((team) => {
      const isAbove = team.usedBytes > minBytes
      return { ...team, fairBytes, aboveBytes: isAbove ? Math.max(0, team.soonBytes - level) : 0 }
    })
    .sort((a, b) => b.aboveBytes - a.aboveBytes)
  const beyond = teams
    .filter(({ aboveBytes }) => aboveBytes > 0)
    .flatMap(({ teamID, own, other }) => beyondOf(teamID, own, Math.max(0, level - other)))
  return {
    teams: teams.map(({ teamID, usedBytes, aboveBytes }) => ({ teamID, usedBytes, fairBytes, aboveBytes })),
    beyond: new Map([...beyondOf(noTeam, sandboxesOf.get(noTeam) ?? [], 0), ...beyond]),
  }
}

/** Those of a team's sandboxes that are larger than the others may be if the team keeps to `allowedBytes`. */
function beyondOf(
  teamID: string,
  own: readonly ResourceUse[],
  allowedBytes: number,
): [string, BeyondShare][] {
  const level = levelOf(own.map(soon), allowedBytes)
  const minBytes = smallBytes(own)
  return own
    .map((use): [string, BeyondShare] => [
      use.sandboxID,
      { teamID, bytes: soon(use) - level, usedBytes: use.usedBytes },
    ])
    .filter(([, { bytes, usedBytes }]) => bytes > 0 && usedBytes > minBytes)
    .sort(([, a], [, b]) => b.bytes - a.bytes)
}

/**
 * Whoever uses less than half of the average is left alone, even if hardly anything is left to divide because other programs
 * use it. The largest is never left alone.
 */
const smallBytes = (all: readonly { usedBytes: number }[]): number =>
  all.reduce((total, { usedBytes }) => total + usedBytes, 0) / Math.max(1, all.length) / 2

/** The amount to which the largest have to be cut so that all together are no more than `capacity`. */
export function levelOf(amounts: readonly number[], capacity: number): number {
  let left = capacity
  const ascending = [...amounts].sort((a, b) => a - b)
  for (const [index, amount] of ascending.entries()) {
    const level = left / (ascending.length - index)
    if (amount > level) return level
    left -= amount
  }
  return Number.POSITIVE_INFINITY
}

const soon = ({ usedBytes, soonBytes = usedBytes }: ResourceUse): number => soonBytes
