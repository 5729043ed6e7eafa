/**
 * Snapshots on disk: a folder with the disk of a sandbox, links to the disks below it, and its memory where
 * that was kept. It is made beside its place and renamed when all is there, so it is whole or not there.
 */
import { existsSync } from 'node:fs'
import { constants, link, mkdir, open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Snapshot } from '../../core/driver.ts'
import { AppError } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import type { RuntimeBuild } from './builds.ts'
import { assertPlainPath, type Layout } from './layout.ts'
import { killProcessesNaming } from './processes.ts'
import type { SandboxRecord } from './records.ts'
import { diskName, layerName, layerNumbers, rootsOf } from './root-layers.ts'

export type SnapshotRecord = {
  version: 1
  /** The sandbox as it was when it was saved. */
  origin: SandboxRecord
  /** The disk is the origin's own file, not a copy: nothing can start from it before the origin is taken apart. */
  shared: boolean
  /** What wrote the memory; null where none was kept. */
  build: RuntimeBuild | null
}

/** Who has moved the files of a snapshot into itself. */
type Taker = { sandboxID: string; runID: string }

export const memoryName = 'memory'
/** By far the largest of the files with memory. */
export const pagesName = 'pages.img'
export const configName = 'config.json'
const recordName = 'saved.json'
const takerName = 'taken.json'

export const partialOf = (folder: string): string => `${folder}.partial`

/** Only what lies below the data folder is ours to write and remove. */
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

/** The moment from which it is there. */
export async function finishSnapshot(
  folder: string,
  record: SnapshotRecord,
  lasting: boolean,
): Promise<void> {
  const partial = partialOf(folder)
  await writeFile(join(partial, recordName), JSON.stringify(record))
  const files = [recordName, diskName, ...(record.build ? [configName, ...memoryFiles] : [])]
  if (lasting) await sync([...files.map((name) => join(partial, name)), partial])
  await rename(partial, folder)
  if (lasting) await sync([dirname(folder)])
}

const memoryFiles = ['checkpoint.img', pagesName, 'pages_meta.img'].map((name) => join(memoryName, name))

async function sync(paths: string[]): Promise<void> {
  await Promise.all(
    paths.map(async (path) => {
      const file = await open(path, constants.O_RDONLY)
      await file.sync().finally(() => file.close())
    }),
  )
}

export async function readSnapshot(folder: string): Promise<SnapshotRecord | undefined> {
  const text = await readFile(join(folder, recordName), 'utf8').catch(() => undefined)
  return text === undefined ? undefined : (JSON.parse(text) as SnapshotRecord)
}

export async function describeSnapshot(folder: string): Promise<Snapshot | undefined> {
  const record = await readSnapshot(folder)
  if (!record) return undefined
  const names = [recordName, diskName, ...(record.build ? [configName, ...memoryFiles] : [])]
  const sizes = await Promise.all(names.map((name) => stat(join(folder, name)).catch(() => undefined)))
  const bytes = sizes.reduce((sum, size) => sum + (size?.blocks ?? 0) * 512, 0)
  // Once a sandbox has run on its very files, they match its memory no more.
  return {
    folder,
    memory: record.build !== null && !existsSync(usedMark(folder)),
    bytes,
    roots: rootsOf(record.origin),
  }
}

/** Its record goes first, so that what a crash leaves is no snapshot any more. */
export async function removeSnapshot(folder: string): Promise<void> {
  if (existsSync(partialOf(folder))) await killProcessesNaming(partialOf(folder))
  await rm(join(folder, recordName), { force: true })
  await Promise.all([folder, partialOf(folder)].map((path) => rm(path, { recursive: true, force: true })))
}

/**
 * Claims it for one sandbox; the claim of one that is no longer there counts for nothing. It is there with its
 * content or not at all: nobody could tell whose an empty one is.
 */
export async function claimSnapshot(folder: string, { sandboxID, runID }: Taker): Promise<void> {
  const written = join(folder, `taken-${runID}.json`)
  await writeFile(written, JSON.stringify({ sandboxID, runID }))
  try {
    await link(written, join(folder, takerName))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    throw new AppError('conflict', `A sandbox is being started from ${folder} already.`)
  } finally {
    await rm(written, { force: true })
  }
}

export async function releaseSnapshot(folder: string): Promise<void> {
  await rm(join(folder, takerName), { force: true })
}

export async function takerOf(folder: string): Promise<Taker | undefined> {
  const text = await readFile(join(folder, takerName), 'utf8').catch(() => undefined)
  try {
    return text === undefined ? undefined : (JSON.parse(text) as Taker)
  } catch {
    return undefined
  }
}

/** There as soon as a sandbox may have run on the very files of the snapshot. */
export const usedMark = (folder: string): string => join(folder, 'used')

/** Links the disks below the own one; `shift` makes room for one more above them. */
export async function linkLayers(from: string, to: string, layers: number, shift = 0): Promise<void> {
  await Promise.all(
    layerNumbers({ layers }).map((number) =>
      linkFile(join(from, layerName(number)), join(to, layerName(number + shift))),
    ),
  )
}

/** Not every file system can read and write past the page cache. */
export async function opensDirectly(path: string, flags = constants.O_RDONLY): Promise<boolean> {
  try {
    const file = await open(path, flags | constants.O_DIRECT)
    await file.close()
    return true
  } catch {
    return false
  }
}

export async function linkFile(from: string, to: string): Promise<void> {
  await link(from, to).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EXDEV' && error.code !== 'EMLINK') throw error
    return copyFile(from, to)
  })
}

/** Holes stay holes, and where the file system can share blocks nothing is copied at all. */
export async function copyFile(from: string, to: string, signal?: AbortSignal): Promise<void> {
  await runCommand('cp', ['--sparse=always', '--reflink=auto', from, to], { ...(signal && { signal }) })
}
