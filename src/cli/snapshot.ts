import { asJson, table } from './output.ts'
import { type MadeSnapshot, type TeamClient, whichServer } from './team-client.ts'
import type { Given, VerbTable } from './verbs.ts'

type Connect = () => Promise<TeamClient>

export const snapshotVerbs: VerbTable<Connect> = {
  name: 'snapshot',
  does: 'snapshots of sandboxes',
  notes: `"create" takes a snapshot of a running sandbox, which goes on. It keeps memory and files, with --no-memory the files alone.
A snapshot with the name of an earlier one takes that name over. Start sandboxes of it by its name or id:

  warren sandbox create --template SNAPSHOT

${whichServer}`,
  verbs: {
    list: { texts: { sandbox: 'SANDBOX' }, run: list },
    create: { words: ['SANDBOX'], texts: { name: 'NAME' }, flags: ['no-memory'], run: create },
    delete: { words: ['SNAPSHOT'], run: remove },
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
  const made = await (await connect()).takeSnapshot(sandboxID!, request)
  return json ? asJson(made) : (made.names[0] ?? made.snapshotID)
}

/** A snapshot is a template on the wire. */
async function remove({ words: [snapshot], json }: Given, connect: Connect): Promise<string> {
  await (await connect()).deleteTemplate(snapshot!)
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
