import type { Volume } from '../contract/rest/volume.ts'
import { AppError } from '../lib/app-error.ts'
import type { AdminClient } from './admin-client.ts'
import { asksForHelp, parseCommand, takeWords, unknownVerb } from './arguments.ts'
import { asJson, table } from './output.ts'

const command = 'warren volume'
const usage = `Usage:
  warren volume list TEAM [--json]
  warren volume delete TEAM VOLUME [--json]

TEAM is a team's slug, id or name, VOLUME a volume's name or id. A volume is deleted with all it holds, unless
sandboxes have it mounted.`

/** Gives the text to print. `connect` is called only when the arguments are right. */
export async function volumeCommand(
  args: readonly string[],
  connect: () => Promise<AdminClient>,
): Promise<string> {
  if (asksForHelp(args)) return usage
  const [verb, ...rest] = args
  const { words, json } = parseCommand(rest, [], command)
  if (verb === 'list') {
    const [team] = takeWords(words, ['TEAM'], command)
    const client = await connect()
    return show(await client.listVolumes((await client.findTeam(team!)).teamID), json)
  }
  if (verb === 'delete') {
    const [team, volume] = takeWords(words, ['TEAM', 'VOLUME'], command)
    const client = await connect()
    return remove(client, team!, volume!, json)
  }
  throw unknownVerb(verb, 'list or delete', command)
}

async function remove(client: AdminClient, team: string, word: string, json: boolean): Promise<string> {
  const { teamID, slug } = await client.findTeam(team)
  const volumes = await client.listVolumes(teamID)
  const found = volumes.find(({ volumeID }) => volumeID === word) ?? volumes.find(({ name }) => name === word)
  if (!found) {
    throw new AppError(
      'not_found',
      `The team ${slug} has no volume '${word}'. Run \`warren volume list ${slug}\`.`,
    )
  }
  await client.deleteVolume(teamID, found.volumeID)
  return json ? asJson({ ...found, deleted: true }) : `The volume ${found.name} is deleted.`
}

function show(volumes: Volume[], json: boolean): string {
  if (json) return asJson(volumes)
  return table(
    ['VOLUME', 'ID'],
    volumes.map(({ name, volumeID }) => [name, volumeID]),
  )
}
