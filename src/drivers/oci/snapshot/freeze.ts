/**
 * Freezes a sandbox in place and thaws it. A note in the sandbox's folder is written before the freeze and removed after
 * the thaw. So the next process of Warren sees that a process which died has left the sandbox frozen.
 */
import { rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { SnapshotOptions } from '../../../core/ports/driver.ts'
import { AppError, errorText } from '../../../lib/app-error.ts'
import { runCommand } from '../../../lib/run-command.ts'
import type { SandboxRecord } from '../../host/record/records.ts'
import { readJSON } from '../../host/record/versioned-file.ts'
import type { OciContext } from '../context/context.ts'
import { lowerMemoryLater } from '../context/memory-limit.ts'
import { pauseArguments, resumeArguments } from '../runtime/runtime-commands.ts'
import { readSnapshot, removeSnapshot, untilGpuCheckpointEnds } from './snapshot-folder.ts'

type FrozenNote = {
  /** True if the runtime holds the processes, which a snapshot of memory needs; false if the host's kernel does. */
  byRuntime: boolean
  /** The snapshot that the sandbox was frozen for. */
  save: { folder: string; afterwards: SnapshotOptions['afterwards'] } | null
}

const noteName = 'frozen.json'
const gpuResumeLimitMs = 10 * 60_000

export function readFrozenNote(context: OciContext, sandboxID: string): Promise<FrozenNote | undefined> {
  return readJSON<FrozenNote>(join(context.layout.sandbox(sandboxID), noteName))
}

/** Writes the note, and freezes nothing. */
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

/** Freezes a sandbox until `thaw`, without a snapshot. If it is frozen already, this succeeds. After a failure it runs. */
export async function freezeUntilQuiet(
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
  // A thawed sandbox writes to the snapshot's disk, and an interrupted snapshot is incomplete: neither can be used.
  if (note.save && note.save.afterwards !== 'go-on') await removeSnapshot(note.save.folder)
  if (!note.byRuntime) await cgroups.thaw(layout.cgroup(record.sandboxID))
  else {
    // GPU memory is moved back before the runtime lets the sandbox go on.
    const limitMs = record.gpus ? gpuResumeLimitMs : undefined
    await runRuntime(resumeArguments(layout, record), signal, limitMs).catch((error) => {
      if (!/cannot resume .* in state running/.test(errorText(error))) throw error
    })
  }
  await rm(join(layout.sandbox(record.sandboxID), noteName), { force: true })
  // A snapshot has raised it.
  if (record.gpus && note.save) lowerMemoryLater(context, record)
}

/** True if the snapshot that was to end the sandbox is complete, even if its processes are still there, frozen. */
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
