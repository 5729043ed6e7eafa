import type { LostVolumeEntry } from '../contract/rest/lost-volume.ts'
import type { Volume } from '../contract/rest/volume.ts'
import { AppError } from '../lib/app-error.ts'
import type { AdminClient } from './admin-client.ts'
import { UsageError } from './arguments.ts'
import { asJson, table } from './output.ts'
import { type TeamClient, whichServer } from './team-client.ts'
import type { Given, VerbTable } from './verbs.ts'

type VolumeCommandParts = {
  connect: () => Promise<TeamClient>
  connectAdmin: () => Promise<AdminClient>
}

/** What a team does with its volumes, and the operator for it. */
type TeamVolumes = Pick<TeamClient, 'listVolumes' | 'createVolume' | 'deleteVolume'>

const forTeam = { team: 'TEAM' }
const forTeamOption = { team: "for the operator: another team's volumes, by its slug, id or name" }

export const volumeVerbs: VerbTable<VolumeCommandParts> = {
  name: 'volume',
  does: 'volumes of a team',
  notes: `VOLUME is a volume's name or id. ${whichServer}`,
  verbs: {
    create: {
      does: 'Makes an empty volume.',
      about: `Sandboxes mount it by its name:

  warren run --volume NAME:/data -- ls /data`,
      words: ['NAME'],
      texts: forTeam,
      options: forTeamOption,
      run: create,
    },
    list: { does: 'Shows the volumes.', texts: forTeam, options: forTeamOption, run: list },
    delete: {
      does: 'Deletes a volume and all it holds, unless sandboxes have it mounted.',
      words: ['VOLUME'],
      texts: forTeam,
      options: forTeamOption,
      run: remove,
    },
    lost: {
      does: 'Lists volumes that were lost when a node was forgotten, and where their disks are now.',
      run: async ({ json }, parts) => showLost(await (await parts.connectAdmin()).listLostVolumes(), json),
    },
    recover: {
      does: 'Gives a lost volume whose disk is back to its team again.',
      words: ['VOLUME'],
      texts: { name: 'NAME' },
      options: { name: 'a new name; else it has the one it had' },
      run: recover,
    },
  },
}

async function volumesOf({ team }: Given['values'], parts: VolumeCommandParts): Promise<TeamVolumes> {
  if (team === undefined) return parts.connect()
  const admin = await parts.connectAdmin()
  const { teamID } = await admin.findTeam(team)
  return {
    listVolumes: () => admin.listVolumes(teamID),
    createVolume: (name) => admin.createVolume(teamID, name),
    deleteVolume: (volumeID) => admin.deleteVolume(teamID, volumeID),
  }
}

async function create({ words: [name], values, json }: Given, parts: VolumeCommandParts): Promise<string> {
  if (!/^[\w-]+$/.test(name!))
    throw new UsageError(`NAME is '${name}', but must be of letters, digits, '_' and '-'.`, 'warren volume')
  const { volumeID, sizeMB, createdAt } = await (await volumesOf(values, parts)).createVolume(name!)
  if (json) return asJson({ volumeID, name, createdAt, sizeMB })
  return `The volume ${name} is ready. Use it: warren run --volume ${name}:/data -- ls /data`
}

async function list({ values, json }: Given, parts: VolumeCommandParts): Promise<string> {
  return show(await (await volumesOf(values, parts)).listVolumes(), json)
}

async function remove({ words: [word], values, json }: Given, parts: VolumeCommandParts): Promise<string> {
  const client = await volumesOf(values, parts)
  const volumes = await client.listVolumes()
  const found = volumes.find(({ volumeID }) => volumeID === word) ?? volumes.find(({ name }) => name === word)
  if (!found) {
    throw new AppError('not_found', `There is no volume '${word}'. \`warren volume list\` shows them.`)
  }
  await client.deleteVolume(found.volumeID)
  return json ? asJson({ ...found, deleted: true }) : `The volume ${found.name} is deleted.`
}

async function recover(
  { words: [word], values, json }: Given,
  { connectAdmin }: VolumeCommandParts,
): Promise<string> {
  const client = await connectAdmin()
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
  if (volumes.length === 0) return 'There are no volumes.'
  return table(
    ['VOLUME', 'ID', 'SIZE', 'CREATED'],
    volumes.map(({ name, volumeID, sizeMB, createdAt }) => [
      name,
      volumeID,
      `${sizeMB} MiB`,
      createdAt.slice(0, 10),
    ]),
  )
}
