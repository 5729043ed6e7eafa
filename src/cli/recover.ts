import type { QuarantineEntry } from '../contract/rest/quarantine.ts'
import type { AdminClient } from './admin-client.ts'
import { asksForHelp, parseCommand, takeWords, UsageError } from './arguments.ts'
import { asJson, table } from './output.ts'

const command = 'warren recover'
const usage = `Usage:
  warren recover [--json]
  warren recover SNAPSHOT [--json]
  warren recover SNAPSHOT --remove [--json]

Without SNAPSHOT it lists the snapshots that nothing owns; Warren keeps them for some days (WARREN_QUARANTINE_DAYS).
With SNAPSHOT it gives the sandbox of that snapshot back to its team, as paused; a connect resumes it.
With --remove it deletes the snapshot now.`

export async function recoverCommand(
  args: readonly string[],
  connect: () => Promise<AdminClient>,
): Promise<string> {
  if (asksForHelp(args)) return usage
  const { words, flags, json } = parseCommand(args, [], command, { flags: ['remove'] })
  const removes = flags.has('remove')
  if (words.length === 0) {
    if (removes) throw new UsageError('SNAPSHOT is missing.', command)
    return show(await (await connect()).listQuarantine(), json)
  }
  const [snapshotName] = takeWords(words, ['SNAPSHOT'], command) as [string]
  const client = await connect()
  if (removes) {
    await client.removeQuarantined(snapshotName)
    return json ? asJson({ snapshotName, removed: true }) : `The snapshot ${snapshotName} is removed.`
  }
  const recovered = await client.recover(snapshotName)
  if (json) return asJson(recovered)
  return `The sandbox ${recovered.sandboxID} of team ${recovered.teamID} is paused; connect to it to resume it.`
}

function show(entries: QuarantineEntry[], json: boolean): string {
  if (json) return asJson(entries)
  if (entries.length === 0) return 'Nothing is in quarantine.'
  const minute = (time: string) => time.slice(0, 16).replace('T', ' ')
  const rows = entries.map(({ snapshotName, sandboxID, since, deletedAt, reason }) => [
    ...[snapshotName, sandboxID ?? '-', minute(since), minute(deletedAt), reason],
  ])
  return table(['SNAPSHOT', 'SANDBOX', 'SINCE', 'DELETED AT', 'WHY'], rows)
}
