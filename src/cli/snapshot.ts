import { AppError, isAppError } from '../lib/app-error.ts'
import { asJson, table } from './output.ts'
import { sandboxIDOf } from './sandbox-name.ts'
import { type MadeSnapshot, type TeamClient, whichServer } from './team-client.ts'
import type { Given, VerbTable } from './verbs.ts'

type Connect = () => Promise<TeamClient>

export const snapshotVerbs: VerbTable<Connect> = {
  name: 'snapshot',
  does: 'snapshots of sandboxes',
  notes: `SNAPSHOT is a snapshot's name or id. ${whichServer}`,
  verbs: {
    list: {
      does: 'Shows the snapshots, newest first.',
      texts: { sandbox: 'SANDBOX' },
      options: { sandbox: 'only snapshots of this sandbox' },
      run: list,
    },
    create: {
      does: 'Takes a snapshot of a running sandbox, which goes on.',
      about: `Start sandboxes of it by its name or id:

  warren run --template SNAPSHOT -- COMMAND`,
      words: ['SANDBOX'],
      texts: { name: 'NAME' },
      flags: ['no-memory'],
      options: {
        name: 'a name for it, which an earlier snapshot of that name loses; else it has an id only',
        'no-memory': 'keeps the files alone; else memory and files',
      },
      run: create,
    },
    delete: { does: 'Deletes a snapshot.', words: ['SNAPSHOT'], run: remove },
  },
}

async function list({ values: { sandbox }, json }: Given, connect: Connect): Promise<string> {
  return show(
    await (await connect()).listSnapshots(sandbox === undefined ? {} : { sandboxID: sandbox }),
    json,
  )
}

async function create({ words: [sandboxID], values, flags, json }: Given, connect: Connect): Promise<string> {
  const { name } = values
  const request = { memory: !flags.has('no-memory'), ...(name !== undefined && { name }) }
  const client = await connect()
  const made = await client.takeSnapshot(await sandboxIDOf(client, sandboxID!), request)
  return json ? asJson(made) : (made.names[0] ?? made.snapshotID)
}

/** A snapshot is a template on the wire. */
async function remove({ words: [snapshot], json }: Given, connect: Connect): Promise<string> {
  await (await connect()).deleteTemplate(snapshot!).catch((error) => {
    if (!isAppError(error, 'not_found')) throw error
    const hint = '`warren snapshot list` shows them.'
    throw new AppError('not_found', `There is no snapshot '${snapshot}'. ${hint}`, { cause: error })
  })
  return json ? asJson({ snapshot, deleted: true }) : `The snapshot ${snapshot} is deleted.`
}

function show(snapshots: MadeSnapshot[], json: boolean): string {
  if (json) return asJson(snapshots)
  if (snapshots.length === 0) return 'There are no snapshots.'
  return table(
    ['SNAPSHOT', 'NAMES'],
    snapshots.map(({ snapshotID, names }) => [snapshotID, names.join(' ')]),
  )
}
