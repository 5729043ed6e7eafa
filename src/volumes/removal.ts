/** Removes trees that others may change meanwhile, of any size and depth, with two open folders at a time. */
import { type FileHandle, opendir, rename, rmdir, unlink } from 'node:fs/promises'
import { newUUID } from '../lib/ids.ts'
import { isMissing } from '../lib/if-present.ts'
import { entryPath, openedPath, openFolder } from './path-walk.ts'

const prefix = 'removed-'
/** A process that still works in a folder may add entries again. */
const attempts = 5

/**
 * Moves the folder to the bin at once and then removes it completely. `removeLeftovers` finishes the removal
 * after a crash.
 */
export async function removeTree(path: string, bin: FileHandle): Promise<void> {
  const name = newName()
  await rename(path, entryPath({ folder: bin, name }))
  await removeMoved(bin, [name])
}

/** Names of all entries in the bin. */
export async function listLeftovers(bin: FileHandle): Promise<string[]> {
  const names: string[] = []
  for await (const { name } of await opendir(openedPath(bin))) names.push(name)
  return names
}

export async function removeLeftovers(bin: FileHandle, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const isFile = await unlink(entryPath({ folder: bin, name })).then(
      () => true,
      (error: NodeJS.ErrnoException) => {
        if (error.code !== 'EISDIR') throw error
        return false
      },
    )
    if (!isFile) await removeMoved(bin, [name])
  }
}

/** Moves folders within a folder beside it, so that paths never become deep. */
async function removeMoved(bin: FileHandle, names: string[]): Promise<void> {
  for (let name = names.pop(); name !== undefined; name = names.pop()) {
    const path = entryPath({ folder: bin, name })
    const folder = await openFolder(path).catch(ignoreMissing)
    if (!folder) continue
    try {
      for (let attempt = 1; ; attempt++) {
        await emptyFolder(folder, bin, names)
        const isGone = await rmdir(path).then(
          () => true,
          (error: NodeJS.ErrnoException) => {
            if (error.code !== 'ENOTEMPTY' || attempt >= attempts) throw error
            return false
          },
        )
        if (isGone) break
      }
    } finally {
      await folder.close()
    }
  }
}

async function emptyFolder(folder: FileHandle, bin: FileHandle, names: string[]): Promise<void> {
  // Names need not be UTF-8.
  const entries = await opendir(openedPath(folder), { encoding: 'buffer' as BufferEncoding })
  for await (const entry of entries) {
    const name = entry.name as unknown as Buffer
    const path = Buffer.concat([Buffer.from(`${openedPath(folder)}/`), name])
    if (!entry.isDirectory()) await unlink(path).catch(ignoreMissing)
    else {
      const moved = newName()
      await rename(path, entryPath({ folder: bin, name: moved })).catch(ignoreMissing)
      names.push(moved)
    }
  }
}

const newName = (): string => `${prefix}${newUUID()}`

function ignoreMissing(error: unknown): undefined {
  if (!isMissing(error)) throw error
  return undefined
}
