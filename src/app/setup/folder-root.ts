/** A base template out of a folder of the operator's: the folder itself is only read. */
import { createHash } from 'node:crypto'
import { lstat } from 'node:fs/promises'
import { AppError } from '../../lib/app-error.ts'
import { ifPresent } from '../../lib/if-present.ts'
import { runCommand } from '../../lib/run-command.ts'

/** To be raised when a root is completed in another way than before. */
const version = 1

/** Changes with every file's name, owner, mode, size and time, so that a changed folder makes a new root. */
export async function folderHash(folder: string): Promise<string> {
  const found = await ifPresent(lstat(folder))
  if (!found?.isDirectory()) {
    throw new AppError(
      'invalid_argument',
      `WARREN_BASE_IMAGE names ${folder}, which is no folder: unpack a root filesystem there.`,
    )
  }
  const about = '%P %y %m %U %G %s %T@ %l\\0'
  const { stdout } = await runCommand('find', [folder, '-xdev', '-printf', about])
  const entries = stdout.split('\0').sort()
  return createHash('sha256')
    .update(JSON.stringify([version, folder, entries]))
    .digest('hex')
    .slice(0, 12)
}

/** Without what is mounted below it. */
export async function copyFolder(folder: string, target: string): Promise<void> {
  const exact = ['--archive', '--one-file-system', '--reflink=auto', '--no-target-directory']
  await runCommand('cp', [...exact, folder, target])
}
