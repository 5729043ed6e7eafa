/**
 * Snapshots on disk: a folder with the disk of a sandbox, links to the disks below it, and its memory if it
 * has one. It is made beside its final path and renamed when everything is there, so it is complete or
 * absent.
 */
import { access, constants, mkdir, open, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { SandboxSize, Snapshot } from '../../../core/ports/driver.ts'
import { AppError } from '../../../lib/app-error.ts'
import { delay } from '../../../lib/clock.ts'
import { ifPresent } from '../../../lib/if-present.ts'
import { copyMark } from '../../host/disk/disk-files.ts'
import { diskName, rootsOf } from '../../host/disk/root-layers.ts'
import { type ArgumentMark, findMarked, killMarked } from '../../host/process/processes.ts'
import { assertPlainPath, type Layout } from '../../host/record/layout.ts'
import type { SandboxRecord } from '../../host/record/records.ts'
import { readVersioned } from '../../host/record/versioned-file.ts'
import type { RuntimeBuild } from '../runtime/builds.ts'
import { gpuCheckpointFlag } from '../runtime/runtime-commands.ts'

export type SnapshotRecord = {
  version: 1
  /** The sandbox as it was when the snapshot was taken. */
  origin: SandboxRecord
  /**
   * The disk is the origin's own file, not a copy: nothing can start from it before the origin is dismantled.
   */
  shared: boolean
  /** The runtime that wrote the memory; null without memory. */
  build: RuntimeBuild | null
  /** Bytes of GPU memory in the snapshot; missing if the sandbox had no GPU. */
  gpuBytes?: number
  /** The snapshot was taken on another machine. */
  imported?: true
  /** The memory arrives while a sandbox runs on it: the folder is not complete, and the object store has it all. */
  arriving?: true
}

const snapshotVersion = 1
export const memoryName = 'memory'
/** By far the largest of the memory files. */
export const pagesName = 'pages.img'
export const configName = 'config.json'
const recordName = 'saved.json'
const checkpointPollMs = 50

export const partialOf = (folder: string): string => `${folder}.partial`

/** Identifies the runtime's program that writes the memory of this snapshot. */
const checkpointMark = (folder: string): ArgumentMark => ['--image-path', join(partialOf(folder), memoryName)]

/** Only paths below the data folder are ours to write and remove. */
export function assertOurs(layout: Layout, folder: string): string {
  const path = resolve(folder)
  assertPlainPath(path)
  if (path.startsWith(`${layout.data}/`)) return path
  throw new AppError('invalid_argument', `${path} is outside of the data folder; snapshots lie below it.`)
}

export async function beginSnapshot(folder: string): Promise<string> {
  if (await readSnapshot(folder)) throw new AppError('already_exists', `${folder} holds a snapshot already.`)
  await removeSnapshot(folder)
  const partial = partialOf(folder)
  await mkdir(partial, { recursive: true, mode: 0o700 })
  return partial
}

/** From this moment on the snapshot exists. */
export async function finishSnapshot(
  folder: string,
  record: SnapshotRecord,
  lasting: boolean,
): Promise<void> {
  const partial = partialOf(folder)
  await writeFile(join(partial, recordName), JSON.stringify(record))
  if (lasting) await sync([...filesOf(record).map((name) => join(partial, name)), partial])
  await rename(partial, folder)
  if (lasting) await sync([dirname(folder)])
}

export const memoryFiles = ['checkpoint.img', pagesName, 'pages_meta.img'].map((name) =>
  join(memoryName, name),
)

export const pagesFile = join(memoryName, pagesName)

const filesOf = ({ build, arriving }: SnapshotRecord): string[] => [
  recordName,
  diskName,
  ...(build ? [configName, ...memoryFiles.filter((name) => !arriving || name !== pagesFile)] : []),
]

async function sync(paths: string[]): Promise<void> {
  await Promise.all(
    paths.map(async (path) => {
      const file = await open(path, constants.O_RDONLY)
      await file.sync().finally(() => file.close())
    }),
  )
}

/** Undefined if it is certain that there is no complete snapshot. */
export function readSnapshot(folder: string): Promise<SnapshotRecord | undefined> {
  return readVersioned<SnapshotRecord>(join(folder, recordName), snapshotVersion)
}

export async function describeSnapshot(folder: string): Promise<Snapshot | undefined> {
  const record = await readSnapshot(folder)
  if (!record) return undefined
  const sizes = await Promise.all(filesOf(record).map((name) => ifPresent(stat(join(folder, name)))))
  const bytes = sizes.reduce((sum, size) => sum + (size?.blocks ?? 0) * 512, 0)
  const used = await isConsumed(folder)
  const memory = record.build !== null && !used
  const size = sizeOf(record.origin)
  const roots = rootsOf(record.origin)
  const { imported, arriving } = record
  return {
    folder,
    memory,
    size,
    bytes,
    roots,
    ...(used && { used }),
    ...(imported && { imported }),
    ...(arriving && { arriving }),
  }
}

export function sizeOf({ cpuCount, memoryMB, diskMB, gpus }: SandboxRecord): SandboxSize {
  return { cpuCount, memoryMB, diskMB, ...(gpus && { gpuCount: gpus.ids.length }) }
}

/**
 * A checkpoint outlives whoever asked for it. gVisor is lost if its sandbox is told to go on while a checkpoint moves GPU memory:
 * for that it lets the sandbox run, and stops it again. So such a checkpoint is neither killed nor overtaken.
 */
export async function untilGpuCheckpointEnds(folder: string): Promise<void> {
  const isUnderWay = async () =>
    (await findMarked([checkpointMark(folder)])).some(({ args }) => args.includes(gpuCheckpointFlag))
  while (await isUnderWay()) await delay(checkpointPollMs)
}

/** Removes the record first, so that a crash leaves nothing that counts as a snapshot. */
export async function removeSnapshot(folder: string): Promise<void> {
  const partial = partialOf(folder)
  if (await isThere(partial)) {
    await untilGpuCheckpointEnds(folder)
    await killMarked([copyMark(partial), checkpointMark(folder)])
  }
  await rm(join(folder, recordName), { force: true })
  await Promise.all([folder, partial].map((path) => rm(path, { recursive: true, force: true })))
}

/** Exists once a sandbox may have run on the snapshot's own files: they no longer match its memory. */
export const consumedMark = (folder: string): string => join(folder, 'used')

export const isConsumed = (folder: string): Promise<boolean> => isThere(consumedMark(folder))

async function isThere(path: string): Promise<boolean> {
  return (await ifPresent(access(path).then(() => true))) ?? false
}
