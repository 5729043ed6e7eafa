import type { Team } from '../contract/rest/team.ts'
import type { AdminClient, LimitChanges } from './admin-client.ts'
import { asksForHelp, parseCommand, positiveNumber, takeWords, unknownVerb } from './arguments.ts'
import { asJson, table } from './output.ts'

const command = 'warren team'
const usage = `Usage:
  warren team create NAME [--json]
  warren team list [--json]
  warren team delete TEAM [--force]
  warren team limits TEAM [--sandboxes N] [--cpu N] [--memory-mb N] [--lifetime-hours N] [--json]

TEAM is a team's slug, id or name. Without a number, limits shows the present limits. A team that has sandboxes,
templates or volumes is deleted only with --force, which ends and deletes all of them.`

const limitOptions = {
  sandboxes: 'maxSandboxes',
  cpu: 'maxCPU',
  'memory-mb': 'maxMemoryMB',
  'lifetime-hours': 'maxLifetimeHours',
} as const
type LimitOption = keyof typeof limitOptions

/** Gives the text to print. `connect` is called only when the arguments are right. */
export async function teamCommand(
  args: readonly string[],
  connect: () => Promise<AdminClient>,
): Promise<string> {
  if (asksForHelp(args)) return usage
  const [verb, ...rest] = args
  if (verb === 'create') {
    const { words, json } = parseCommand(rest, [], command)
    const [name] = takeWords(words, ['NAME'], command)
    return show([await (await connect()).createTeam(name!)], json, true)
  }
  if (verb === 'list') {
    const { words, json } = parseCommand(rest, [], command)
    takeWords(words, [], command)
    return show(await (await connect()).listTeams(), json, false)
  }
  if (verb === 'delete') return remove(rest, connect)
  if (verb === 'limits') return limits(rest, connect)
  throw unknownVerb(verb, 'create, list, delete or limits', command)
}

async function remove(args: readonly string[], connect: () => Promise<AdminClient>): Promise<string> {
  const { words, flags, json } = parseCommand(args, [], command, { flags: ['force'] })
  const [word] = takeWords(words, ['TEAM'], command)
  const client = await connect()
  const { teamID, slug } = await client.findTeam(word!)
  await client.deleteTeam(teamID, flags.has('force'))
  return json ? asJson({ teamID, deleted: true }) : `The team ${slug} is deleted.`
}

async function limits(args: readonly string[], connect: () => Promise<AdminClient>): Promise<string> {
  const names = Object.keys(limitOptions) as LimitOption[]
  const { words, values, json } = parseCommand(args, names, command)
  const [word] = takeWords(words, ['TEAM'], command)
  const changes: LimitChanges = {}
  for (const name of names) {
    const text = values[name]
    if (text !== undefined) changes[limitOptions[name]] = positiveNumber(name, text, command)
  }
  const client = await connect()
  const team = await client.findTeam(word!)
  const changed = Object.keys(changes).length > 0 ? await client.changeLimits(team.teamID, changes) : team
  return show([changed], json, true)
}

const headings = ['TEAM', 'NAME', 'SANDBOXES', 'CPU', 'MEMORY MB', 'LIFETIME HOURS', 'CREATED', 'ID']

function show(teams: Team[], json: boolean, single: boolean): string {
  if (json) return asJson(single ? teams[0] : teams)
  const rows = teams.map(({ slug, name, limits, createdAt, teamID }) => [
    slug,
    name,
    String(limits.maxSandboxes),
    String(limits.maxCPU),
    String(limits.maxMemoryMB),
    String(limits.maxLifetimeHours),
    createdAt.slice(0, 10),
    teamID,
  ])
  return table(headings, rows)
}
