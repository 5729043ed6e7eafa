/**
 * The disk of a volume: a sparse ext4 image, whose size is the volume's limit. Sandboxes see its folder `files`; uploads
 * are collected in `incoming` beside that, until they are whole.
 */
import { chmod, chown, mkdir, mkdtemp, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { AppError, errorText } from '../lib/app-error.ts'
import { runCommand } from '../lib/run-command.ts'

export const filesFolder = 'files'
export const incomingFolder = 'incoming'

/** The same for every mount. Nothing in a volume is a device or gives rights to who runs it. */
export const mountOptions = 'noatime,nodev,nosuid,discard,noinit_itable,errors=remount-ro'

/** `owner` is the host's id of whom the root of the volume belongs to; everybody may write to it. */
export async function makeImage(image: string, sizeMB: number, owner: number): Promise<void> {
  const work = await mkdtemp(join(dirname(image), 'making-'))
  try {
    const content = join(work, 'content')
    const made = join(work, 'image')
    for (const folder of [content, join(content, filesFolder), join(content, incomingFolder)]) {
      await mkdir(folder, { mode: 0o700 })
    }
    // Sandboxes' users pass through the root of the disk to what they see of it.
    await chmod(content, 0o711)
    await chown(join(content, filesFolder), owner, owner)
    await chmod(join(content, filesFolder), 0o777)
    const lazy = 'lazy_itable_init=1,lazy_journal_init=1,nodiscard'
    const features = ['-O', '^resize_inode', '-m', '0', '-E', lazy]
    await runCommand('mkfs.ext4', ['-q', '-F', ...features, '-d', content, made, `${sizeMB}M`])
    await syncFile(made)
    await rename(made, image)
    await syncFile(dirname(image))
  } catch (error) {
    if (!/no space left|ENOSPC/i.test(errorText(error))) throw error
    throw new AppError('no_space', 'There is no disk space left for a volume.', { cause: error })
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

async function syncFile(path: string): Promise<void> {
  const file = await open(path, 'r')
  await file.sync().finally(() => file.close())
}
