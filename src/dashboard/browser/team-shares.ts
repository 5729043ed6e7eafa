/** A team's shares of a machine, of memory and disk together. */
import type { NodeShares, ResourceShares } from '../../contract/rest/shares.ts'

type Share = ResourceShares['teams'][number]
/** Undefined: the team uses none of it. */
export type SharesOfTeam = {
  teamID: string
  memory: Share | undefined
  disk: Share | undefined
  /** Open connections of its sandboxes. */
  connections: number
}

/** Who has to give back most comes first, then who uses most memory, then who uses most of the disk. */
export function teamShares({
  memory,
  disk,
  connections,
}: Pick<NodeShares, 'memory' | 'disk' | 'connections'>): SharesOfTeam[] {
  const byTeam = ({ teams }: ResourceShares) => new Map(teams.map((share) => [share.teamID, share]))
  const [inMemory, onDisk] = [byTeam(memory), byTeam(disk)]
  const open = new Map(connections?.teams?.map(({ teamID, count }) => [teamID, count]))
  const ids = [...new Set([...inMemory.keys(), ...onDisk.keys(), ...open.keys()])]
  const above = ({ memory, disk }: SharesOfTeam) => (memory?.aboveBytes ?? 0) + (disk?.aboveBytes ?? 0)
  return ids
    .map((teamID) => ({
      teamID,
      memory: inMemory.get(teamID),
      disk: onDisk.get(teamID),
      connections: open.get(teamID) ?? 0,
    }))
    .sort(
      (a, b) =>
        above(b) - above(a) ||
        (b.memory?.usedBytes ?? 0) - (a.memory?.usedBytes ?? 0) ||
        (b.disk?.usedBytes ?? 0) - (a.disk?.usedBytes ?? 0),
    )
}
