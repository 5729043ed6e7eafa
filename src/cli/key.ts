import type { ApiKey } from '../contract/rest/team.ts'
import type { AdminClient } from './admin-client.ts'
import { asJson, table } from './output.ts'
import type { Given, VerbTable } from './verbs.ts'

type Connect = () => Promise<AdminClient>

export const keyVerbs: VerbTable<Connect> = {
  name: 'key',
  does: 'API keys of a team',
  notes: "TEAM is a team's slug, id or name; KEY_ID is what `warren key list` shows.",
  verbs: {
    create: {
      does: 'Makes a key and shows it, once.',
      words: ['TEAM'],
      texts: { name: 'NAME' },
      options: { name: "what the key is called; 'made on the command line' unless given" },
      run: create,
    },
    list: { does: 'Shows the keys of a team, each in part.', words: ['TEAM'], run: list },
    revoke: { does: 'Makes a key useless, at once.', words: ['TEAM', 'KEY_ID'], run: revoke },
  },
}

async function create({ words: [team], values, json }: Given, connect: Connect): Promise<string> {
  const client = await connect()
  const { teamID, slug } = await client.findTeam(team!)
  const created = await client.createKey(teamID, values.name ?? 'made on the command line')
  if (json) return asJson(created)
  return `${created.key}\n\nThe key of team ${slug}, id ${created.id}. It is shown only now: store it.`
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
  const rows = keys.map(({ id, name, mask, createdAt, lastUsed }) => [
    id,
    name,
    `${mask.prefix}${mask.maskedValuePrefix}…${mask.maskedValueSuffix}`,
    createdAt.slice(0, 10),
    lastUsed?.slice(0, 16).replace('T', ' ') ?? 'never',
  ])
  return table(['ID', 'NAME', 'KEY', 'CREATED', 'LAST USED'], rows)
}
