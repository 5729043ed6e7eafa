/** `warren team shares`: what each team uses of a machine, and what the guards did lately. */
import type { NodeShares, SharesReport } from '../contract/rest/shares.ts'
import type { Team } from '../contract/rest/team.ts'
import type { AdminClient } from './admin-client.ts'
import { asJson, table } from './output.ts'

const maxActs = 20
const mebibyte = 1024 * 1024

export async function showShares(client: AdminClient, json: boolean): Promise<string> {
  const report = await client.readShares()
  return json ? asJson(report) : sharesText(report, await client.listTeams())
}

export function sharesText(
  { nodes, missingNodes = [] }: SharesReport,
  teams: readonly Pick<Team, 'teamID' | 'slug'>[],
): string {
  const slugs = new Map(teams.map(({ teamID, slug }) => [teamID, slug]))
  const slugOf = (teamID: string | null) => (teamID === null ? '' : (slugs.get(teamID) ?? teamID))
  const parts = nodes.flatMap((node) => [`NODE ${node.nodeID}`, ...nodeParts(node, slugOf)])
  return [...parts, ...missingNodes.map((id) => `NODE ${id} does not answer.`)].join('\n\n')
}

function nodeParts(
  { memory, disk, connections, frozen, acts }: NodeShares,
  slugOf: (teamID: string | null) => string,
): string[] {
  const uses = Object.entries({ memory, disk }).flatMap(([resource, { teams }]) =>
    teams.map(({ teamID, usedBytes, fairBytes, aboveBytes }) => [
      ...[slugOf(teamID), resource, mebibytes(usedBytes), mebibytes(fairBytes)],
      aboveBytes > 0 ? mebibytes(aboveBytes) : '',
    ]),
  )
  const opened = (connections?.teams ?? []).map(({ teamID, count }) => [
    ...[slugOf(teamID), 'connections', String(count), String(connections!.perTeam ?? ''), ''],
  ])
  const lines = acts.slice(0, maxActs).map(({ lastAt, guard, act, count, teamID, sandboxID = '', why }) => {
    const times = count > 1 ? `${act} (${count} times)` : act
    return [lastAt.slice(0, 19).replace('T', ' '), guard, times, slugOf(teamID), sandboxID, why]
  })
  const free = [`${mebibytes(memory.freeBytes)} of memory`, `${mebibytes(disk.freeBytes)} of disk space`]
  const open = connections ? ` ${connections.count} of ${connections.max} connections are in use.` : ''
  return [
    `Free: ${free.join(', ')}.${open}`,
    table(['TEAM', 'OF', 'USES', 'FAIR SHARE', 'HAS TO GIVE BACK'], [...uses, ...opened]),
    ...(frozen.length === 0
      ? []
      : [
          table(
            ['FROZEN NOW', 'TEAM', 'GUARD', 'SINCE (UTC)'],
            frozen.map(({ sandboxID, teamID, guard, since }) => [
              ...[sandboxID, slugOf(teamID), guard, since.slice(0, 19).replace('T', ' ')],
            ]),
          ),
        ]),
    lines.length === 0
      ? 'The guards touched nobody since the server started.'
      : table(['LAST (UTC)', 'GUARD', 'ACT', 'TEAM', 'SANDBOX', 'WHY'], lines),
  ]
}

const mebibytes = (bytes: number): string => `${Math.floor(bytes / mebibyte)} MiB`
