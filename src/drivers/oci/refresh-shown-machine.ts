/** Writes what a sandbox uses now into the files that it has over the host's in /proc. */
import { existsSync } from 'node:fs'
import type { OciContext } from './context.ts'
import { flavourOf } from './flavours.ts'
import type { SandboxRecord } from './records.ts'
import { writeProcFiles } from './shown-machine.ts'
import { readUse } from './stats.ts'

export async function refreshShownMachine(context: OciContext, record: SandboxRecord): Promise<void> {
  if (flavourOf(record).showsOwnMachine) return
  const files = context.layout.shownProc(record.sandboxID)
  // A sandbox that an earlier version started has them elsewhere, and keeps those it was started with.
  if (!existsSync(files)) return
  const { cpuCount, memoryMB } = record
  const use = await readUse(context, record)
  writeProcFiles(files, { ...use, cpuCount, memoryBytes: memoryMB * 1024 * 1024 })
}
