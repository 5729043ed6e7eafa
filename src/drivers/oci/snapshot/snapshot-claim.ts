/**
 * Records which sandbox has consumed a snapshot. The claim is a symbolic link whose target is the name of the
 * claimant: the file system creates it atomically, for one of many concurrent callers, and a power cut cannot
 * empty it.
 */
import { readlink, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../../../lib/app-error.ts'
import { ifPresent } from '../../../lib/if-present.ts'
import { readJSON } from '../../host/record/versioned-file.ts'

type SnapshotClaim = { sandboxID: string; runID: string }

const claimName = 'claim'
/** The file of earlier versions. */
const formerName = 'taken.json'

/** The claim of a sandbox that no longer exists does not count; its finder releases it. */
export async function claimSnapshot(folder: string, { sandboxID, runID }: SnapshotClaim): Promise<void> {
  try {
    await symlink(`${sandboxID}/${runID}`, join(folder, claimName))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    throw new AppError('conflict', `A sandbox is being started from ${folder} already.`)
  }
}

export async function readClaim(folder: string): Promise<SnapshotClaim | undefined> {
  const target = await ifPresent(readlink(join(folder, claimName)))
  if (target === undefined) return readJSON<SnapshotClaim>(join(folder, formerName))
  const [sandboxID, runID] = target.split('/')
  return { sandboxID: sandboxID!, runID: runID! }
}

export async function releaseClaim(folder: string): Promise<void> {
  await Promise.all([claimName, formerName].map((name) => rm(join(folder, name), { force: true })))
}
