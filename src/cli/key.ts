import type { ApiKey } from '../contract/rest/team.ts'
import type { AdminClient } from './admin-client.ts'
import { asksForHelp, parseCommand, takeWords, unknownVerb } from './arguments.ts'
import { asJson, table } from './output.ts'

const command = 'warren key'
const usage = `Usage:
  warren key create TEAM [--name NAME] [--json]
  warren key list TEAM [--json]
  warren key revoke TEAM KEY_ID [--json]

TEAM is a team's slug, id or name; KEY_ID is what list shows.`

/** Gives the text to print. `connect` is called only when the arguments are right. */
export async function keyCommand(
  args: readonly string[],
  connect: () => Promise<AdminClient>,
): Promise<string> {
  if (asksForHelp(args)) return usage
  const [verb, ...rest] = args
  if (verb === 'create') return create(rest, connect)
  if (verb === 'list') {
    const { words, json } = parseCommand(rest, [], command)
    const [team] = takeWords(words, ['TEAM'], command)
    const client = await connect()
    return show(await client.listKeys((await client.findTeam(team!)).teamID), json)
  }
  if (verb === 'revoke') {
    const { words, json } = parseCommand(rest, [], command)
    const [team, keyID] = takeWords(words, ['TEAM', 'KEY_ID'], command)
    const client = await connect()
    await client.revokeKey((await client.findTeam(team!)).teamID, keyID!)
    return json ? asJson({ id: keyID, revoked: true }) : `The key ${keyID} is revoked.`
  }
  throw unknownVerb(verb, 'create, list or revoke', command)
}

async function create(args: readonly string[], connect: () => Promise<AdminClient>): Promise<string> {
  const { words, values, json } = parseCommand(args, ['name'], command)
  const [team] = takeWords(words, ['TEAM'], command)
  const client = await connect()
  const { teamID, slug } = await client.findTeam(team!)
  const created = await client.createKey(teamID, values.name ?? 'made on the command line')
  if (json) return asJson(created)
  return `${created.key}\n\nThe key of team ${slug}, id ${created.id}. It is shown only now: keep it.`
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
