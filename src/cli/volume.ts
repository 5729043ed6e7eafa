import type { LostVolumeEntry } from '../contract/rest/lost-volume.ts'
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
sandboxes have it mounted.
lost     lists the volumes that were lost when a node was forgotten, and where their disks are now.
recover  gives a lost volume whose disk is back to its team again, under its name or NAME.`,
  verbs: {
    list: { words: ['TEAM'], run: list },
    delete: { words: ['TEAM', 'VOLUME'], run: remove },
    lost: { run: async ({ json }, connect) => showLost(await (await connect()).listLostVolumes(), json) },
    recover: { words: ['VOLUME'], texts: { name: 'NAME' }, run: recover },
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

async function recover({ words: [word], values, json }: Given, connect: Connect): Promise<string> {
  const client = await connect()
  const named = (await client.listLostVolumes()).filter(({ name }) => name === word)
  if (named.length > 1) {
    throw new AppError(
      'invalid_argument',
      `${named.length} lost volumes have the name '${word}'. Use an id of \`warren volume lost\`.`,
    )
  }
  const recovered = await client.recoverVolume(named[0]?.volumeID ?? word!, values.name)
  if (json) return asJson(recovered)
  return `The volume ${recovered.name} is back; it belongs to team ${recovered.teamID}.`
}

function showLost(volumes: LostVolumeEntry[], json: boolean): string {
  if (json) return asJson(volumes)
  if (volumes.length === 0) return 'No volumes are lost.'
  const rows = volumes.map(({ name, volumeID, teamID, nodeID, lostAt, foundAt }) => {
    const disk = foundAt === null ? `not there; was on node ${nodeID}` : `on node ${nodeID}`
    return [name, volumeID, teamID, lostAt.slice(0, 16).replace('T', ' '), disk]
  })
  return table(['VOLUME', 'ID', 'TEAM', 'LOST', 'DISK'], rows)
}

function show(volumes: Volume[], json: boolean): string {
  if (json) return asJson(volumes)
  if (volumes.length === 0) return 'The team has no volumes.'
  return table(
    ['VOLUME', 'ID'],
    volumes.map(({ name, volumeID }) => [name, volumeID]),
  )
}
