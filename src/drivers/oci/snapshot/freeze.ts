/**
 * Freezing a sandbox in place. A note in the sandbox's folder is written before and removed after, so that whoever
 * comes next knows of a sandbox that a dead process left frozen.
 */
import { rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { SnapshotOptions } from '../../../core/ports/driver.ts'
import { AppError, errorText } from '../../../lib/app-error.ts'
import { runCommand } from '../../../lib/run-command.ts'
import type { OciContext } from '../context/context.ts'
import type { SandboxRecord } from '../record/records.ts'
import { readJSON } from '../record/versioned-file.ts'
import { pauseArguments, resumeArguments } from '../runtime/runtime-commands.ts'
import { lowerMemoryLimit } from './gpu-memory.ts'
import { readSnapshot, removeSnapshot, untilGpuCheckpointEnds } from './snapshot-folder.ts'

export type FrozenNote = {
  /** The runtime holds the processes, not the host's kernel: that is how memory can be written to disk. */
  byRuntime: boolean
  /** The snapshot that the sandbox was frozen for. */
  save: { folder: string; afterwards: SnapshotOptions['afterwards'] } | null
}

const noteName = 'frozen.json'
const gpuResumeLimitMs = 10 * 60_000

export function readFrozenNote(context: OciContext, sandboxID: string): Promise<FrozenNote | undefined> {
  return readJSON<FrozenNote>(join(context.layout.sandbox(sandboxID), noteName))
}

/** Says so without freezing it. */
export async function noteFrozen(
  { layout }: OciContext,
  { sandboxID }: SandboxRecord,
  note: FrozenNote,
): Promise<void> {
  const path = join(layout.sandbox(sandboxID), noteName)
  await writeFile(`${path}.new`, JSON.stringify(note))
  await rename(`${path}.new`, path)
}

export async function freeze(
  context: OciContext,
  record: SandboxRecord,
  note: FrozenNote,
  signal?: AbortSignal,
): Promise<void> {
  await noteFrozen(context, record, note)
  if (note.byRuntime) await runRuntime(pauseArguments(context.layout, record), signal)
  else await context.cgroups.freeze(context.layout.cgroup(record.sandboxID), signal)
}

/** Frozen until `thaw`, and for no snapshot. Frozen already is success; where it fails, all of it runs. */
export async function standStill(
  context: OciContext,
  record: SandboxRecord,
  byRuntime: boolean,
  signal?: AbortSignal,
): Promise<void> {
  if (await readFrozenNote(context, record.sandboxID)) return
  await freeze(context, record, { byRuntime, save: null }, signal).catch(async (error) => {
    await thaw(context, record)
    throw error
  })
}

export async function thaw(context: OciContext, record: SandboxRecord, signal?: AbortSignal): Promise<void> {
  const { layout, cgroups } = context
  const note = await readFrozenNote(context, record.sandboxID)
  if (!note) return
  if (await wasEndedBySnapshot(record, note)) {
    throw new AppError('conflict', `Sandbox ${record.sandboxID} has ended with its snapshot; stop it.`)
  }
  if (record.gpus && note.save) await untilGpuCheckpointEnds(note.save.folder)
  // The snapshot was cut off, or its disk is the one that is written to from now on.
  if (note.save && note.save.afterwards !== 'go-on') await removeSnapshot(note.save.folder)
  if (!note.byRuntime) await cgroups.thaw(layout.cgroup(record.sandboxID))
  else {
    // A GPU gets its memory back before the runtime says that the sandbox goes on.
    const limitMs = record.gpus ? gpuResumeLimitMs : undefined
    await runRuntime(resumeArguments(layout, record), signal, limitMs).catch((error) => {
      if (!/cannot resume .* in state running/.test(errorText(error))) throw error
    })
  }
  await rm(join(layout.sandbox(record.sandboxID), noteName), { force: true })
  // A snapshot has raised it.
  if (record.gpus && note.save) await lowerMemoryLimit(context, record)
}

/** The snapshot is complete, so the sandbox's life is over even if its processes are still frozen. */
export async function wasEndedBySnapshot(record: SandboxRecord, note: FrozenNote): Promise<boolean> {
  if (note.save?.afterwards !== 'end') return false
  return (await readSnapshot(note.save.folder))?.origin.runID === record.runID
}

async function runRuntime(
  [program, ...args]: string[],
  signal?: AbortSignal,
  timeoutMs = 60_000,
): Promise<void> {
  await runCommand(program!, args, { timeoutMs, ...(signal && { signal }) })
}
