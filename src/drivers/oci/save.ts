/**
 * One save, step by step: the sandbox stands still, memory and files are taken, and only then does it go on. One
 * that is to end stands still until the caller takes it apart. Whatever fails before the folder has its name leaves
 * the sandbox running and nothing else.
 */
import { constants, copyFile as copySmall, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Snapshot, SnapshotOptions } from '../../core/driver.ts'
import { AppError, errorText } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import { describeBuild } from './builds.ts'
import type { OciContext } from './context.ts'
import { freeze, frozenNote, thaw } from './freeze.ts'
import type { SandboxRecord } from './records.ts'
import { diskName } from './root-layers.ts'
import { checkpointArguments, runtimeComplaint } from './runtime.ts'
import {
  beginSnapshot,
  configName,
  copyFile,
  describeSnapshot,
  finishSnapshot,
  linkFile,
  linkLayers,
  memoryName,
  opensDirectly,
  removeSnapshot,
} from './snapshot-store.ts'

export async function takeSnapshot(
  context: OciContext,
  record: SandboxRecord,
  folder: string,
  options: SnapshotOptions,
  signal?: AbortSignal,
): Promise<Snapshot> {
  if (await frozenNote(context, record.sandboxID)) {
    throw new AppError('conflict', `Sandbox ${record.sandboxID} stands still; thaw it before it is saved.`)
  }
  signal?.throwIfAborted()
  const goesOn = options.afterwards === 'go-on'
  const build = options.memory ? await describeBuild(record.runtimeBinary) : null
  try {
    await beginSnapshot(folder)
    const save = { folder, afterwards: options.afterwards }
    await freeze(context, record, { byRuntime: record.runtime === 'runsc', save })
    await keepAll(context, record, folder, options, signal)
    if (goesOn) await thaw(context, record)
    await finishSnapshot(folder, { version: 1, origin: record, shared: !goesOn, build }, options.lasting)
  } catch (error) {
    const goes = await thaw(context, record).then(
      () => 'it goes on running',
      (cause) => `and it could not be thawed (${errorText(cause)}): stop it`,
    )
    await removeSnapshot(folder)
    signal?.throwIfAborted()
    throw await saveError(context, record, error, goes)
  }
  return (await describeSnapshot(folder))!
}

async function keepAll(
  context: OciContext,
  record: SandboxRecord,
  folder: string,
  options: SnapshotOptions,
  signal?: AbortSignal,
): Promise<void> {
  const { layout } = context
  const partial = `${folder}.partial`
  const own = layout.sandbox(record.sandboxID)
  if (options.memory) {
    const memory = join(partial, memoryName)
    await mkdir(memory)
    const direct = options.lasting && (await takesDirectWrites(memory))
    const [program, ...args] = checkpointArguments(layout, record, memory, direct)
    await Promise.all([
      runCommand(program!, args, { ...(signal && { signal }) }),
      copySmall(join(own, configName), join(partial, configName)),
    ])
  }
  signal?.throwIfAborted()
  // After the checkpoint, which writes what gVisor still held. Only in the slot's namespace can the mount be seen.
  await runCommand('nsenter', [
    `--mount=${layout.mountNamespace(record.slot)}`,
    'sync',
    '-f',
    layout.diskMount,
  ])
  const disk = [join(own, diskName), join(partial, diskName)] as const
  if (options.afterwards === 'go-on') await copyFile(...disk, signal)
  else await linkFile(...disk)
  await linkLayers(own, partial, record.layers)
}

/** Past the page cache, memory is safe as soon as it is written, and does not push anything else out of it. */
async function takesDirectWrites(folder: string): Promise<boolean> {
  const path = join(folder, 'direct')
  return opensDirectly(path, constants.O_CREAT | constants.O_WRONLY).finally(() => rm(path, { force: true }))
}

async function saveError(
  context: OciContext,
  record: SandboxRecord,
  error: unknown,
  goes: string,
): Promise<unknown> {
  if (error instanceof AppError && error.code !== 'internal') return error
  const complaint = await runtimeComplaint(context.layout.sandbox(record.sandboxID))
  const text = `${errorText(error)} ${complaint ?? ''}`
  const full = /no space left|ENOSPC/i.test(text)
  return new AppError(
    full ? 'no_space' : 'unavailable',
    full
      ? `There is no room on the disk to save sandbox ${record.sandboxID}; ${goes}.`
      : `Sandbox ${record.sandboxID} could not be saved; ${goes}: ${complaint ?? errorText(error)}`,
    { cause: error },
  )
}
