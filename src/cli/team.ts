import type { Team } from '../contract/rest/team.ts'
import type { AdminClient, LimitChanges } from './admin-client.ts'
import { positiveNumber, UsageError } from './arguments.ts'
import { asJson, table } from './output.ts'
import { showShares } from './team-shares.ts'
import type { Given, VerbTable } from './verbs.ts'

type Connect = () => Promise<AdminClient>

const limitOptions = {
  sandboxes: 'maxSandboxes',
  cpu: 'maxCPU',
  'memory-mb': 'maxMemoryMB',
  'lifetime-hours': 'maxLifetimeHours',
  gpus: 'maxGPUs',
} as const

export const teamVerbs: VerbTable<Connect> = {
  name: 'team',
  does: 'teams and their limits',
  notes: `TEAM is a team's slug, id or name. Without a number, limits shows the present limits. A team that has sandboxes,
templates or volumes is deleted only with --force, which ends and deletes all of them. shares tells what each team uses
of memory and disk, its fair share, and whom a guard froze, paused, ended or refused lately, and why. With older-clients yes, the
team's clients may be E2B's before 1.5, which show the token of a sandbox in its host name (docs/moving-from-e2b.md).`,
  verbs: {
    create: { words: ['NAME'], run: create },
    shares: { run: async ({ json }, connect) => showShares(await connect(), json) },
    list: { run: async ({ json }, connect) => show(await (await connect()).listTeams(), json, false) },
    delete: { words: ['TEAM'], flags: ['force'], run: remove },
    limits: {
      words: ['TEAM'],
      texts: Object.fromEntries(Object.keys(limitOptions).map((name) => [name, 'N'])),
      run: limits,
    },
    'older-clients': { words: ['TEAM', 'yes|no'], run: olderClients },
  },
}

async function create({ words: [name], json }: Given, connect: Connect): Promise<string> {
  return show([await (await connect()).createTeam(name!)], json, true)
}

async function remove({ words: [word], flags, json }: Given, connect: Connect): Promise<string> {
  const client = await connect()
  const { teamID, slug } = await client.findTeam(word!)
  await client.deleteTeam(teamID, flags.has('force'))
  return json ? asJson({ teamID, deleted: true }) : `The team ${slug} is deleted.`
}

async function limits({ words: [word], values, json }: Given, connect: Connect): Promise<string> {
  const changes: LimitChanges = {}
  for (const [name, limit] of Object.entries(limitOptions)) {
    const text = values[name]
    if (text === undefined) continue
    const isNone = limit === 'maxGPUs' && text === '0'
    changes[limit] = isNone ? 0 : positiveNumber(name, text, 'warren team')
  }
  const client = await connect()
  const team = await client.findTeam(word!)
  const changed = Object.keys(changes).length > 0 ? await client.changeLimits(team.teamID, changes) : team
  return show([changed], json, true)
}

async function olderClients({ words: [word, answer], json }: Given, connect: Connect): Promise<string> {
  if (answer !== 'yes' && answer !== 'no')
    throw new UsageError(`'${answer}' is neither yes nor no.`, 'warren team')
  const client = await connect()
  const team = await client.findTeam(word!)
  return show([await client.allowOlderClients(team.teamID, answer === 'yes')], json, true)
}

const headings = [
  'TEAM',
  'NAME',
  'SANDBOXES',
  'CPU',
  'MEMORY MB',
  'LIFETIME HOURS',
  'GPUS',
  'OLDER CLIENTS',
  'CREATED',
  'ID',
]

function show(teams: Team[], json: boolean, single: boolean): string {
  if (json) return asJson(single ? teams[0] : teams)
  const rows = teams.map(({ slug, name, limits, olderClients, createdAt, teamID }) => [
    slug,
    name,
    String(limits.maxSandboxes),
    String(limits.maxCPU),
    String(limits.maxMemoryMB),
    String(limits.maxLifetimeHours),
    String(limits.maxGPUs),
    olderClients ? 'yes' : 'no',
    createdAt.slice(0, 10),
    teamID,
  ])
  return table(headings, rows)
}
