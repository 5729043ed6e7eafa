import type { Volume } from '../contract/rest/volume.ts'
import { AppError } from '../lib/app-error.ts'
import type { AdminClient } from './admin-client.ts'
import { asJson, table } from './output.ts'
import type { Given, VerbTable } from './verbs.ts'

type Connect = () => Promise<AdminClient>

export const volumeVerbs: VerbTable<Connect> = {
  name: 'volume',
  does: 'volumes of a team',
  notes: `TEAM is a team's slug, id or name, VOLUME a volume's name or id. A volume is deleted with all it holds, unless
sandboxes have it mounted.`,
  verbs: {
    list: { words: ['TEAM'], run: list },
    delete: { words: ['TEAM', 'VOLUME'], run: remove },
  },
}

async function list({ words: [team], json }: Given, connect: Connect): Promise<string> {
  const client = await connect()
  return show(await client.listVolumes((await client.findTeam(team!)).teamID), json)
}

async function remove({ words: [team, word], json }: Given, connect: Connect): Promise<string> {
  const client = await connect()
  const { teamID, slug } = await client.findTeam(team!)
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
  if (volumes.length === 0) return 'The team has no volumes.'
  return table(
    ['VOLUME', 'ID'],
    volumes.map(({ name, volumeID }) => [name, volumeID]),
  )
}
