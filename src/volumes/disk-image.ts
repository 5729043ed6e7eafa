/**
 * The disk of a volume: an ext4 image whose size is the volume's limit. It takes all its blocks from the
 * machine's disk when it is made, so that the volume has its full size whatever others write. Sandboxes see
 * its folder `files`; uploads are collected in `incoming` beside it until they are complete.
 */
import { chmod, chown, mkdir, mkdtemp, open, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { AppError, errorText } from '../lib/app-error.ts'
import { runCommand } from '../lib/run-command.ts'

export const filesFolder = 'files'
export const incomingFolder = 'incoming'

/**
 * Every mount of a volume has these options. They give no power to devices and setuid programs. Without `discard`, blocks
 * of deleted files stay with the volume.
 */
export const mountOptions = 'noatime,nodev,nosuid,nodiscard,noinit_itable,errors=remount-ro'

/** `owner` is the host ID of the user that owns the volume's root; everybody may write to it. */
export async function makeImage(
  image: string,
  sizeMB: number,
  owner: number,
): Promise<{ isAllocated: boolean }> {
  const work = await mkdtemp(join(dirname(image), 'making-'))
  try {
    const content = join(work, 'content')
    const made = join(work, 'image')
    for (const folder of [content, join(content, filesFolder), join(content, incomingFolder)]) {
      await mkdir(folder, { mode: 0o700 })
    }
    // Sandboxes' users pass through the root of the disk to the folder that they see.
    await chmod(content, 0o711)
    await chown(join(content, filesFolder), owner, owner)
    await chmod(join(content, filesFolder), 0o777)
    const lazy = 'lazy_itable_init=1,lazy_journal_init=1,nodiscard'
    const features = ['-O', '^resize_inode', '-m', '0', '-E', lazy]
    await runCommand('mkfs.ext4', ['-q', '-F', ...features, '-d', content, made, `${sizeMB}M`])
    const isAllocated = await allocateAll(made)
    await syncFile(made)
    await rename(made, image)
    await syncFile(dirname(image))
    return { isAllocated }
  } catch (error) {
    if (!isFull(error)) throw error
    throw new AppError('no_space', 'There is no disk space left for a volume.', { cause: error })
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

/**
 * Allocates every block that the image lacks; its content stays as it is. False if this file system cannot
 * allocate blocks ahead. Call it only if the disk has that many: some file systems take all free blocks
 * before they find that there are too few.
 */
export async function allocateAll(image: string): Promise<boolean> {
  const { size } = await stat(image)
  try {
    await runCommand('fallocate', ['--length', String(size), image])
    return true
  } catch (error) {
    if (/not supported/i.test(errorText(error))) return false
    throw error
  }
}

/** Bytes of the image that are not allocated on the machine's disk. */
export async function missingBytes(image: string): Promise<number> {
  const { size, blocks } = await stat(image)
  return Math.max(0, size - blocks * 512)
}

const isFull = (error: unknown): boolean => /no space left|ENOSPC/i.test(errorText(error))

async function syncFile(path: string): Promise<void> {
  const file = await open(path, 'r')
  await file.sync().finally(() => file.close())
}
