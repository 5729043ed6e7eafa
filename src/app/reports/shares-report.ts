/** The operator's report on what teams use of this machine and on what its guards did. */
import type { ApiParts } from '../../api/context.ts'
import type { NodeShares, ResourceShares } from '../../contract/rest/shares.ts'
import type {
  MachineShares,
  ResourceShares as MeasuredShares,
} from '../../core/sandbox/capacity/machine-shares.ts'
import { readConnections } from '../telemetry/connection-gauges.ts'

type SharesReportParts = {
  nodeID: string
  shares: Pick<MachineShares, 'read'>
}

const dateTime = (ms: number) => new Date(ms).toISOString()

export function createSharesReport({ nodeID, shares }: SharesReportParts): ApiParts['describeShares'] {
  return async (): Promise<NodeShares> => {
    const [{ memory, disk, connections: counted, frozen, acts }, connections] = await Promise.all([
      shares.read(),
      readConnections(),
    ])
    return {
      nodeID,
      memory: present(memory),
      disk: present(disk),
      ...(connections && { connections: { ...connections, ...counted } }),
      frozen: frozen.map((one) => ({ ...one, since: dateTime(one.since) })),
      acts: acts.map(({ sandboxID, firstAt, lastAt, ...act }) => ({
        ...act,
        ...(sandboxID !== undefined && { sandboxID }),
        firstAt: dateTime(firstAt),
        lastAt: dateTime(lastAt),
      })),
    }
  }
}

const present = ({ freeBytes, startBytes, teams }: MeasuredShares): ResourceShares => ({
  freeBytes: Math.floor(freeBytes),
  startBytes,
  teams: teams.map(({ teamID, usedBytes, fairBytes, aboveBytes }) => ({
    teamID,
    usedBytes: Math.floor(usedBytes),
    fairBytes: Math.floor(fairBytes),
    aboveBytes: Math.floor(aboveBytes),
  })),
})
