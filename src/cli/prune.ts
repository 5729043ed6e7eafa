import { parseArgs } from 'node:util'
import type { PruneReport } from '../contract/rest/prune.ts'
import { errorText } from '../lib/app-error.ts'
import type { AdminClient } from './admin-client.ts'
import { UsageError } from './arguments.ts'
import { asJson, table } from './output.ts'

const usage = `Usage:
  warren prune [--dry-run] [--json]

Removes cached build steps, image layers and uploaded files that no template, build, sandbox or snapshot needs.
With --dry-run it only says what it would remove.`

export async function pruneCommand(
  args: readonly string[],
  connect: () => Promise<AdminClient>,
): Promise<string> {
  const { 'dry-run': dryRun = false, json = false } = parse(args)
  const report = await (await connect()).prune(dryRun)
  return json ? asJson(report) : show(report)
}

function parse(args: readonly string[]): { 'dry-run'?: boolean; json?: boolean } {
  try {
    return parseArgs({
      args: [...args],
      options: { 'dry-run': { type: 'boolean' }, json: { type: 'boolean' } },
    }).values
  } catch (error) {
    throw new UsageError(errorText(error).split('. ')[0] ?? '', usage)
  }
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
  return `${table(['WHAT', 'COUNT', 'ROOM'], cells)}\n${verb} ${megabytes(report.bytes)}.`
}

const megabytes = (bytes: number): string => `${(bytes / 1024 ** 2).toFixed(1)} MiB`
