/**
 * Standing still in place. A note in the sandbox's folder is written before and removed after, so that whoever
 * comes next knows of a sandbox that a dead process left frozen.
 */
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { SnapshotOptions } from '../../core/driver.ts'
import { AppError, errorText } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import type { OciContext } from './context.ts'
import type { SandboxRecord } from './records.ts'
import { pauseArguments, resumeArguments } from './runtime.ts'
import { readSnapshot, removeSnapshot } from './snapshot-store.ts'

export type FrozenNote = {
  /** Held by gVisor's own kernel, not by the host's: that is how memory can be saved. */
  byRuntime: boolean
  /** What it stands still for. */
  save: { folder: string; afterwards: SnapshotOptions['afterwards'] } | null
}

const noteName = 'frozen.json'

export async function frozenNote(context: OciContext, sandboxID: string): Promise<FrozenNote | undefined> {
  const path = join(context.layout.sandbox(sandboxID), noteName)
  const text = await readFile(path, 'utf8').catch(() => undefined)
  return text === undefined ? undefined : (JSON.parse(text) as FrozenNote)
}

export async function freeze(context: OciContext, record: SandboxRecord, note: FrozenNote): Promise<void> {
  const path = join(context.layout.sandbox(record.sandboxID), noteName)
  await writeFile(`${path}.new`, JSON.stringify(note))
  await rename(`${path}.new`, path)
  if (note.byRuntime) await speak(pauseArguments(context.layout, record))
  else await context.cgroups.freeze(context.layout.cgroup(record.sandboxID))
}

export async function thaw(context: OciContext, record: SandboxRecord, signal?: AbortSignal): Promise<void> {
  const { layout, cgroups } = context
  const note = await frozenNote(context, record.sandboxID)
  if (!note) return
  if (await endedBySnapshot(record, note)) {
    throw new AppError('conflict', `Sandbox ${record.sandboxID} has been saved and has ended; stop it.`)
  }
  // A snapshot that was cut off, or whose disk is the one that is written to from now on.
  if (note.save && note.save.afterwards !== 'go-on') await removeSnapshot(note.save.folder)
  if (!note.byRuntime) await cgroups.thaw(layout.cgroup(record.sandboxID))
  else {
    await speak(resumeArguments(layout, record), signal).catch((error) => {
      if (!/cannot resume .* in state running/.test(errorText(error))) throw error
    })
  }
  await rm(join(layout.sandbox(record.sandboxID), noteName), { force: true })
}

/** All that was to be kept is there, so the sandbox's life is over even if its processes are still frozen. */
export async function endedBySnapshot(record: SandboxRecord, note: FrozenNote): Promise<boolean> {
  if (note.save?.afterwards !== 'end') return false
  return (await readSnapshot(note.save.folder))?.origin.runID === record.runID
}

async function speak([program, ...args]: string[], signal?: AbortSignal): Promise<void> {
  await runCommand(program!, args, { timeoutMs: 60_000, ...(signal && { signal }) })
}
