import type { ApiKey } from '../contract/rest/team.ts'
import { systemClock } from '../lib/clock.ts'
import { UsageError } from './arguments.ts'
import { requireRole } from './member.ts'
import { asJson, table } from './output.ts'
import type { PeopleClient } from './people-client.ts'
import type { Given, VerbTable } from './verbs.ts'

type Connect = () => Promise<PeopleClient>

const command = 'warren key create'

export const keyVerbs: VerbTable<Connect> = {
  name: 'key',
  does: 'API keys of a team',
  notes: "TEAM is a team's slug, id or name; KEY_ID is what `warren key list` shows.",
  verbs: {
    create: {
      does: 'Makes a key and shows it, once.',
      about:
        'On the server the operator makes keys for services. With E2B_API_KEY and E2B_API_URL the key is yours, if that one is.',
      words: ['TEAM'],
      texts: { name: 'NAME', role: 'ROLE', expires: 'WHEN' },
      flags: ['service'],
      options: {
        name: "what the key is called (default: 'made on the command line')",
        role: 'what it may do: viewer, member or owner (default: what its maker may do)',
        expires: 'when it ends: 30d, 12h or 2027-01-31 (default: never)',
        service: 'for a program: it stays when you leave the team',
      },
      run: create,
    },
    list: { does: 'Shows the keys of a team, each in part.', words: ['TEAM'], run: list },
    revoke: { does: 'Makes a key useless, at once.', words: ['TEAM', 'KEY_ID'], run: revoke },
  },
}

async function create(given: Given, connect: Connect): Promise<string> {
  const { words, values, flags, json } = given
  const wanted = {
    name: values.name ?? 'made on the command line',
    ...(values.role !== undefined && { role: requireRole(values.role, command) }),
    ...(values.expires !== undefined && { expiresAt: endOf(values.expires, systemClock.now()) }),
    ...(flags.has('service') && { service: true }),
  }
  const client = await connect()
  const { teamID, slug } = await client.findTeam(words[0]!)
  const created = await client.createKey(teamID, wanted)
  if (json) return asJson(created)
  return `${created.key}\n\nThe key of team ${slug}, id ${created.id}. It is shown only now: store it.`
}

const unitMs = { d: 24 * 3_600_000, h: 3_600_000 }

/** From days or hours from now, or a date, at whose beginning in UTC the key ends. */
export function endOf(text: string, now: number): string {
  const [, count, unit] = /^([1-9]\d{0,4})([dh])$/.exec(text) ?? []
  if (count !== undefined) return new Date(now + Number(count) * unitMs[unit as 'd' | 'h']).toISOString()
  const isDate = /^\d{4}-\d\d-\d\d(T[\d:.]+Z)?$/.test(text) && !Number.isNaN(Date.parse(text))
  if (isDate) return new Date(text).toISOString()
  throw new UsageError(`--expires is '${text}', but must be such as 30d, 12h or 2027-01-31.`, command)
}

async function list({ words: [team], json }: Given, connect: Connect): Promise<string> {
  const client = await connect()
  return show(await client.listKeys((await client.findTeam(team!)).teamID), json)
}

async function revoke({ words: [team, keyID], json }: Given, connect: Connect): Promise<string> {
  const client = await connect()
  await client.revokeKey((await client.findTeam(team!)).teamID, keyID!)
  return json ? asJson({ id: keyID, revoked: true }) : `The key ${keyID} is revoked.`
}

function show(keys: ApiKey[], json: boolean): string {
  if (json) return asJson(keys)
  const rows = keys.map((key) => [
    key.id,
    key.name,
    `${key.mask.prefix}${key.mask.maskedValuePrefix}…${key.mask.maskedValueSuffix}`,
    key.role,
    key.createdBy?.email ?? 'a service',
    key.expiresAt?.slice(0, 10) ?? 'never',
    key.lastUsed === undefined ? 'never' : lastUse(key.lastUsed, key.lastUsedFrom),
  ])
  return table(['ID', 'NAME', 'KEY', 'ROLE', 'OF', 'ENDS', 'LAST USED'], rows)
}

const lastUse = (at: string, from: string | undefined): string =>
  `${at.slice(0, 16).replace('T', ' ')}${from === undefined ? '' : ` from ${from}`}`
