/**
 * Takes a snapshot step by step: freezes the sandbox, writes its memory and files, and lets it go on. A sandbox that is to
 * end stays frozen until the caller dismantles it. A failure before the snapshot's folder has its final name leaves the
 * sandbox running and no folder.
 */
import { constants, copyFile, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Snapshot, SnapshotOptions } from '../../../core/ports/driver.ts'
import { allDone } from '../../../lib/all-done.ts'
import { AppError, errorText, isAppError } from '../../../lib/app-error.ts'
import { runCommand } from '../../../lib/run-command.ts'
import { copyInto, linkFile, linkLayers, opensDirectly } from '../../host/disk/disk-files.ts'
import { diskName } from '../../host/disk/root-layers.ts'
import type { SandboxRecord } from '../../host/record/records.ts'
import type { OciContext } from '../context/context.ts'
import { lowerMemoryLater } from '../context/memory-limit.ts'
import { describeBuild } from '../runtime/builds.ts'
import { flavourOf } from '../runtime/flavours.ts'
import { checkpointArguments } from '../runtime/runtime-commands.ts'
import { runtimeComplaint } from '../runtime/runtime-files.ts'
import { freeze, noteFrozen, readFrozenNote, thaw } from './freeze.ts'
import { gpuMemoryLimitMs, makeSpaceForGpuMemory } from './gpu-memory.ts'
import {
  beginSnapshot,
  configName,
  describeSnapshot,
  finishSnapshot,
  memoryName,
  partialOf,
  removeSnapshot,
} from './snapshot-folder.ts'

export async function takeSnapshot(
  context: OciContext,
  record: SandboxRecord,
  folder: string,
  options: SnapshotOptions,
  signal?: AbortSignal,
): Promise<Snapshot> {
  const note = await readFrozenNote(context, record.sandboxID)
  const isFrozen = note?.byRuntime === true && note.save === null
  if (note && !(isFrozen && options.memory && options.afterwards === 'end')) {
    throw new AppError(
      'conflict',
      `Sandbox ${record.sandboxID} is frozen; thaw it before a snapshot is taken of it.`,
    )
  }
  signal?.throwIfAborted()
  return context.slots.expecting(options.startsAfter ?? 0, record.diskMB, () =>
    writeSnapshot(context, record, folder, { ...options, isFrozen }, signal),
  )
}

/** `isFrozen`: the runtime already holds the processes, and still holds them if the snapshot fails. */
async function writeSnapshot(
  context: OciContext,
  record: SandboxRecord,
  folder: string,
  options: SnapshotOptions & { isFrozen: boolean },
  signal?: AbortSignal,
): Promise<Snapshot> {
  const goesOn = options.afterwards === 'go-on'
  const build = options.memory ? await describeBuild(record.runtimeBinary) : null
  try {
    await beginSnapshot(folder)
    const gpuBytes = options.memory ? await makeSpaceForGpuMemory(context, record) : undefined
    const save = { folder, afterwards: options.afterwards }
    if (options.isFrozen) await noteFrozen(context, record, { byRuntime: true, save })
    else await freeze(context, record, { byRuntime: flavourOf(record).keepsMemory, save })
    await writeFiles(context, record, folder, options, signal)
    if (goesOn) await thaw(context, record)
    const saved = { version: 1 as const, origin: record, shared: !goesOn, build }
    await finishSnapshot(folder, { ...saved, ...(gpuBytes !== undefined && { gpuBytes }) }, options.lasting)
  } catch (error) {
    // Nothing has begun, and the folder belongs to the other snapshot.
    if (isAppError(error, 'already_exists')) throw error
    const undo = options.isFrozen
      ? noteFrozen(context, record, { byRuntime: true, save: null })
      : thaw(context, record)
    const outcome = await undo.then(
      () => (options.isFrozen ? 'it is still frozen' : 'it goes on running'),
      (cause) => `and it could not be thawed (${errorText(cause)}): stop it`,
    )
    if (record.gpus && options.isFrozen) lowerMemoryLater(context, record)
    await removeSnapshot(folder)
    signal?.throwIfAborted()
    throw await snapshotError(context, record, error, outcome)
  }
  return (await describeSnapshot(folder))!
}

async function writeFiles(
  context: OciContext,
  record: SandboxRecord,
  folder: string,
  options: SnapshotOptions,
  signal?: AbortSignal,
): Promise<void> {
  const { layout } = context
  const partial = partialOf(folder)
  const own = layout.sandbox(record.sandboxID)
  if (options.memory) await writeMemory(layout, record, partial, options.lasting, signal)
  signal?.throwIfAborted()
  // After the checkpoint, which writes out gVisor's own buffers. The mount is visible only in the slot's namespace.
  await runCommand('nsenter', [
    `--mount=${layout.mountNamespace(record.slot)}`,
    'sync',
    '-f',
    layout.diskMount,
  ])
  if (options.afterwards === 'go-on') await copyInto(join(own, diskName), partial, signal)
  else await linkFile(join(own, diskName), join(partial, diskName))
  await linkLayers(own, partial, record.layers)
}

async function writeMemory(
  layout: OciContext['layout'],
  record: SandboxRecord,
  partial: string,
  lasting: boolean,
  signal?: AbortSignal,
): Promise<void> {
  const memory = join(partial, memoryName)
  await mkdir(memory)
  const direct = lasting && (await takesDirectWrites(memory))
  const [program, ...args] = checkpointArguments(layout, record, memory, direct)
  await allDone([
    runCommand(program!, args, {
      // A snapshot that moves GPU memory cannot be cancelled: the move must come to its end.
      ...(record.gpus ? { timeoutMs: gpuMemoryLimitMs } : signal && { signal }),
    }),
    copyFile(join(layout.sandbox(record.sandboxID), configName), join(partial, configName)),
  ])
}

/** Direct writes bypass the page cache: memory is on disk once written, and no other file leaves the cache for it. */
async function takesDirectWrites(folder: string): Promise<boolean> {
  const path = join(folder, 'direct')
  return opensDirectly(path, constants.O_CREAT | constants.O_WRONLY).finally(() => rm(path, { force: true }))
}

async function snapshotError(
  context: OciContext,
  record: SandboxRecord,
  error: unknown,
  outcome: string,
): Promise<unknown> {
  if (error instanceof AppError && error.code !== 'internal') return error
  const complaint = await runtimeComplaint(context.layout.sandbox(record.sandboxID))
  const text = `${errorText(error)} ${complaint ?? ''}`
  const full = /no space left|ENOSPC/i.test(text)
  return new AppError(
    full ? 'no_space' : 'unavailable',
    full
      ? `There is no disk space for a snapshot of sandbox ${record.sandboxID}; ${outcome}.`
      : `No snapshot could be taken of sandbox ${record.sandboxID}; ${outcome}: ${complaint ?? errorText(error)}`,
    { cause: error },
  )
}
