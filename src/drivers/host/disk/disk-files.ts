/** Linking and copying disk images, and whether they can bypass the page cache. */
import { constants, link, open } from 'node:fs/promises'
import { join } from 'node:path'
import { runCommand } from '../../../lib/run-command.ts'
import type { ArgumentMark } from '../process/processes.ts'
import { layerName, layerNumbers } from './root-layers.ts'

/** The arguments that identify a copy into this folder. */
export const copyMark = (folder: string): ArgumentMark => ['--target-directory', folder]

/** Links the disks below the own one; `shift` leaves a number free for one more above them. */
export async function linkLayers(from: string, to: string, layers: number, shift = 0): Promise<void> {
  await Promise.all(
    layerNumbers({ layers }).map((number) =>
      linkFile(join(from, layerName(number)), join(to, layerName(number + shift))),
    ),
  )
}

/** Copies if the file system allows no more links. */
export async function linkFile(from: string, to: string): Promise<void> {
  await link(from, to).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EXDEV' && error.code !== 'EMLINK') throw error
    return runCommand('cp', [...sparsely, '--no-target-directory', from, to])
  })
}

/** Holes stay holes, and if the file system can share blocks nothing is copied at all. */
const sparsely = ['--sparse=always', '--reflink=auto']

export async function copyInto(file: string, folder: string, signal?: AbortSignal): Promise<void> {
  await runCommand('cp', [...sparsely, ...copyMark(folder), file], { ...(signal && { signal }) })
}

/** Not every file system can bypass the page cache. */
export async function opensDirectly(path: string, flags = constants.O_RDONLY): Promise<boolean> {
  try {
    const file = await open(path, flags | constants.O_DIRECT)
    await file.close()
    return true
  } catch {
    return false
  }
}
