/** Disks that a sandbox shares with others, mounted in the mount namespace of its slot. */
import { join } from 'node:path'
import type { DiskMount } from '../../../core/ports/driver.ts'
import { AppError } from '../../../lib/app-error.ts'
import { runCommand } from '../../../lib/run-command.ts'
import { badMountPoint } from '../namespace/mount-points.ts'
import type { NamespaceThread } from '../namespace/namespace-thread.ts'
import type { Layout } from '../record/layout.ts'

/** Its arguments: a device, its options and a mount point, for each disk. */
const mountAll = `set -e
while [ $# -gt 0 ]; do
  mkdir -p "$3"
  mount -o "$2" "$1" "$3"
  shift 3
done`

type SharingRecord = { slot: number; mounts?: readonly DiskMount[] }

/** The visible folder of each disk, as a path in the slot's mount namespace. */
export const sharedFolders = (layout: Layout, { mounts = [] }: SharingRecord): string[] =>
  mounts.map(({ folder }, at) => join(layout.sharedMount(at + 1), folder))

export async function mountShared(layout: Layout, { slot, mounts = [] }: SharingRecord): Promise<void> {
  if (mounts.length === 0) return
  const args = mounts.flatMap(({ device, options }, at) => [device, options, layout.sharedMount(at + 1)])
  const script = ['sh', '-c', mountAll, 'sh', ...args]
  await runCommand('nsenter', [`--mount=${layout.mountNamespace(slot)}`, ...script])
}

/** Rejects if a path leads to a file, into the sandbox's own parts, or into another mount. */
export async function checkMountPoints(
  namespaces: Pick<NamespaceThread, 'do'>,
  namespace: string,
  root: string,
  mounts: readonly DiskMount[] = [],
): Promise<void> {
  if (mounts.length === 0) return
  const paths = mounts.map(({ path }) => path)
  await namespaces.do({ checkMountPoints: { namespace, root, paths } }).catch((error) => {
    throw error.code === badMountPoint ? new AppError('invalid_argument', error.message) : error
  })
}

/** gVisor's error if a file or folder that a process had open was removed from a shared disk meanwhile. */
const openFileIsGone = /CompleteRestore\(\) failed.*failed to walk "(.*)" of type/

/** Undefined if the error is about something else. */
export function explainRestore(complaint: string, { mounts = [] }: SharingRecord): AppError | undefined {
  const [, name] = (mounts.length > 0 && openFileIsGone.exec(complaint)) || []
  if (name === undefined) return undefined
  return new AppError(
    'unprocessable',
    `A process had ${JSON.stringify(name)} open on a volume, from which it was deleted meanwhile, so the memory cannot ` +
      'be used. Start without memory.',
    { retry: { should: false } },
  )
}

/** Restored processes expect the mounts they had. */
export function assertSamePaths(before: readonly DiskMount[] = [], now: readonly DiskMount[] = []): void {
  const isSame = before.length === now.length && before.every(({ path }, at) => path === now[at]!.path)
  if (isSame) return
  throw new AppError(
    'unprocessable',
    'The snapshot was taken with other disks mounted than the sandbox has now. Start without memory.',
  )
}
