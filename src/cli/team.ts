import type { Team } from '../contract/rest/team.ts'
import type { AdminClient, LimitChanges } from './admin-client.ts'
import { positiveNumber, UsageError } from './arguments.ts'
import { asJson, table } from './output.ts'
import { showShares } from './team-shares.ts'
import { usageVerbs } from './team-usage.ts'
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
  notes: "TEAM is a team's slug, id or name.",
  verbs: {
    create: { does: 'Makes a team.', words: ['NAME'], run: create },
    shares: {
      does: 'Tells what each team uses of memory and disk, and its fair share.',
      about: 'Also whom a guard froze, paused, ended or refused lately, and why.',
      run: async ({ json }, connect) => showShares(await connect(), json),
    },
    list: {
      does: 'Shows the teams and their limits.',
      run: async ({ json }, connect) => show(await (await connect()).listTeams(), json, false),
    },
    delete: {
      does: 'Deletes a team that has nothing.',
      words: ['TEAM'],
      flags: ['force'],
      options: { force: 'ends and deletes its sandboxes, templates and volumes first' },
      run: remove,
    },
    limits: {
      does: 'Changes the limits of a team; without an option it shows them.',
      words: ['TEAM'],
      texts: Object.fromEntries(Object.keys(limitOptions).map((name) => [name, 'N'])),
      options: {
        sandboxes: 'sandboxes that run at once',
        cpu: 'CPUs of all its sandboxes together',
        'memory-mb': 'MiB of memory of all its sandboxes together',
        'lifetime-hours': 'hours that a sandbox may run without a pause',
        gpus: 'GPUs of all its sandboxes together; may be 0',
      },
      run: limits,
    },
    ...usageVerbs,
    member: {
      does: 'Adds, lists, changes and removes the people of a team.',
      about: '`warren team member --help` shows how.',
      words: ['VERB', 'TEAM'],
      run: async () => {
        throw new UsageError('A verb is missing: add, list, role, remove.', 'warren team member')
      },
    },
    'older-clients': {
      does: "Allows the team E2B's clients before 1.5, or forbids them.",
      about: 'They show the token of a sandbox in its host name (docs/moving-from-e2b.md).',
      words: ['TEAM', 'yes|no'],
      run: olderClients,
    },
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
