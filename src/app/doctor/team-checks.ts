/** What the Warren that runs on this machine says of the shares of teams, and of what its guards did lately. */
import { AdminClient } from '../../cli/admin-client.ts'
import type { NodeShares } from '../../contract/rest/shares.ts'
import { errorText, isAppError } from '../../lib/app-error.ts'
import { systemClock } from '../../lib/clock.ts'
import { findServer } from '../commands/find-server.ts'
import type { Config } from '../config/config.ts'
import { type Finding, ok, warn } from '../setup/finding.ts'
import type { MachineCheck } from './machine-check.ts'

export const teamChecks: readonly MachineCheck[] = [{ name: 'teams', look: lookAtShares }]

const latelyMs = 3_600_000
/** The kernel drops the first connections of a team a little below its share. */
const nearlyAll = 0.75
const mebibyte = 1024 * 1024
const remedy =
  '`warren team shares` and the page Shares of the dashboard show more. Kill what is not needed, lower the limits of that team, or get a bigger machine; see docs/operate.md.'

async function lookAtShares(config: Config): Promise<Finding> {
  const server = await findServer(config).catch((error) => {
    if (isAppError(error, 'unavailable')) return undefined
    throw error
  })
  if (!server) return ok('their shares are looked at while Warren runs')
  const client = new AdminClient(server.access)
  try {
    const [{ nodes }, teams] = await Promise.all([client.readShares(), client.listTeams()])
    const slugs = new Map(teams.map(({ teamID, slug }) => [teamID, slug]))
    // The machine that answers comes first.
    return judgeShares(nodes[0]!, (teamID) => slugs.get(teamID) ?? teamID, systemClock.now())
  } catch (error) {
    if (isAppError(error, 'not_found')) return ok('the Warren that runs here is older and does not tell')
    return warn(`their shares cannot be read: ${errorText(error)}`, 'See the log of the server.')
  }
}

export function judgeShares(
  { memory, disk, connections, frozen, acts }: NodeShares,
  nameOf: (teamID: string) => string,
  now: number,
): Finding {
  const resources = Object.entries({ memory, disk })
  const teams = resources.flatMap(([of, { teams: all }]) => all.map((team) => ({ ...team, of })))
  const above = teams.filter(({ aboveBytes }) => aboveBytes > 0)
  const { perTeam = Number.POSITIVE_INFINITY, teams: opened = [] } = connections ?? {}
  const lately = acts.filter(({ lastAt, act }) => act !== 'continued' && now - Date.parse(lastAt) < latelyMs)
  const problems = [
    ...above.map(
      ({ teamID, of, aboveBytes }) =>
        `${nameOf(teamID)} has to give back ${Math.ceil(aboveBytes / mebibyte)} MiB of ${of}`,
    ),
    ...opened
      .filter(({ count: open }) => open > nearlyAll * perTeam)
      .map(({ teamID, count: open }) => `${nameOf(teamID)} has ${open} of ${perTeam} connections open`),
    ...(frozen.length > 0 ? [`${count(frozen.length, 'sandbox is', 'sandboxes are')} frozen`] : []),
    ...(['frozen', 'paused', 'ended', 'refused'] as const).flatMap((act) => {
      const those = lately.filter((one) => one.act === act)
      if (those.length === 0) return []
      const names = [...new Set(those.map(({ teamID }) => nameOf(teamID)))].join(', ')
      if (act === 'refused') return [`requests of ${names} were refused in the last hour`]
      return [`${count(those.length, 'sandbox was', 'sandboxes were')} ${act} in the last hour, of ${names}`]
    }),
  ]
  if (problems.length > 0) return warn(problems.join('; '), remedy)
  const lent = teams.filter(({ usedBytes, fairBytes }) => usedBytes > fairBytes)
  if (lent.length === 0) return ok('each keeps to its share, and no guard acted in the last hour')
  const messages = lent.map(({ teamID, of }) => `${nameOf(teamID)} uses more than its share of ${of}`)
  return ok(`${messages.join('; ')}; nobody else needs it now`)
}

const count = (number: number, one: string, many: string) => `${number} ${number === 1 ? one : many}`
