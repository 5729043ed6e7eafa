/**
 * Lists folders whose content may change meanwhile, in parts, so that a folder of any size takes little
 * memory.
 */
import { type FileHandle, lstat, opendir, readlink } from 'node:fs/promises'
import type { VolumeEntry } from '../core/volume/volume-files.ts'
import { isMissing } from '../lib/if-present.ts'
import { type EntryOwners, entryOf } from './entry.ts'
import { openedPath, openFolder } from './path-walk.ts'

const entriesPerPart = 256
/** Folders below this depth are not listed, because each level holds one folder open. */
const deepestListed = 128

/** `path` is the folder's path in the entries. */
export function listFolder(
  folder: FileHandle,
  path: string,
  depth: number,
  owners: EntryOwners,
): AsyncGenerator<VolumeEntry[]> {
  return listBelow(folder, path, Math.min(depth, deepestListed), owners)
}

async function* listBelow(
  folder: FileHandle,
  path: string,
  depth: number,
  owners: EntryOwners,
): AsyncGenerator<VolumeEntry[]> {
  // Names need not be UTF-8.
  const dirents = await opendir(openedPath(folder), { encoding: 'buffer' as BufferEncoding })
  const above = path === '/' ? '' : path
  const part: VolumeEntry[] = []
  for await (const dirent of dirents) {
    const entryPathBytes = Buffer.concat([
      Buffer.from(`${openedPath(folder)}/`),
      dirent.name as unknown as Buffer,
    ])
    const entry = await describe(entryPathBytes, `${above}/${dirent.name}`, owners)
    if (!entry) continue
    part.push(entry)
    if (entry.type === 'directory' && depth > 1) {
      yield part.splice(0)
      yield* enterAndList(entryPathBytes, entry.path, depth - 1, owners)
    } else if (part.length >= entriesPerPart) yield part.splice(0)
  }
  if (part.length > 0) yield part
}

/** Undefined if the entry was removed or replaced since its name was read. */
async function describe(
  entryPathBytes: Buffer,
  path: string,
  owners: EntryOwners,
): Promise<VolumeEntry | undefined> {
  try {
    const found = await lstat(entryPathBytes)
    const entry = entryOf(found, path, owners)
    return found.isSymbolicLink() ? { ...entry, target: await readlink(entryPathBytes) } : entry
  } catch (error) {
    if (isMissing(error) || (error as NodeJS.ErrnoException).code === 'EINVAL') return undefined
    throw error
  }
}

async function* enterAndList(
  entryPathBytes: Buffer,
  path: string,
  depth: number,
  owners: EntryOwners,
): AsyncGenerator<VolumeEntry[]> {
  const folder = await openFolder(entryPathBytes).catch((error: NodeJS.ErrnoException) => {
    // The entry was replaced meanwhile.
    if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') throw error
  })
  if (!folder) return
  try {
    yield* listBelow(folder, path, depth, owners)
  } finally {
    await folder.close()
  }
}
