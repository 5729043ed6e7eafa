import type { PruneReport } from '../contract/rest/prune.ts'
import type { AdminClient } from './admin-client.ts'
import { asksForHelp, parseCommand, takeWords } from './arguments.ts'
import { asJson, table } from './output.ts'

const command = 'warren prune'
const usage = `Usage:
  warren prune [--dry-run] [--json]

Removes cached build steps, image layers and uploaded files that no template, build, sandbox or snapshot needs.
With --dry-run it only says what it would remove.`

export async function pruneCommand(
  args: readonly string[],
  connect: () => Promise<AdminClient>,
): Promise<string> {
  if (asksForHelp(args)) return usage
  const { words, flags, json } = parseCommand(args, [], command, { flags: ['dry-run'] })
  takeWords(words, [], command)
  const report = await (await connect()).prune(flags.has('dry-run'))
  return json ? asJson(report) : show(report)
}

function show(report: PruneReport): string {
  const verb = report.dryRun ? 'Would free' : 'Freed'
  const rows = [
    ['cached build steps', report.steps],
    ['their snapshots', report.savedStates],
    ['image layers', report.layers],
    ['uploaded files', report.files],
  ] as const
  const cells = rows.map(([name, { count, bytes }]) => [name, String(count), bytes ? megabytes(bytes) : '-'])
  const missing = report.missingNodes?.map(
    (nodeID) => `\nNode ${nodeID} is away or failed; nothing was done there.`,
  )
  const done = `${verb} ${megabytes(report.bytes)}.${(missing ?? []).join('')}`
  return `${table(['WHAT', 'COUNT', 'DISK SPACE'], cells)}\n${done}`
}

const megabytes = (bytes: number): string => `${(bytes / 1024 ** 2).toFixed(1)} MiB`
