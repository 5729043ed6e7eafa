/** Disks that a sandbox shares with others, mounted in the mount namespace of its slot. */
import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import type { DiskMount } from '../../core/driver.ts'
import { AppError } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import type { Layout } from './layout.ts'

/** Its arguments: a device, its options and a mount point, for each disk. */
const mountAll = `set -e
while [ $# -gt 0 ]; do
  mkdir -p "$3"
  mount -o "$2" "$1" "$3"
  shift 3
done`

type SharingRecord = { slot: number; mounts?: readonly DiskMount[] }

/** What the sandbox sees of each disk, as it is found in the slot's mount namespace. */
export const sharedFolders = (layout: Layout, { mounts = [] }: SharingRecord): string[] =>
  mounts.map(({ folder }, at) => join(layout.sharedMount(at + 1), folder))

export async function mountShared(layout: Layout, { slot, mounts = [] }: SharingRecord): Promise<void> {
  if (mounts.length === 0) return
  const args = mounts.flatMap(({ device, options }, at) => [device, options, layout.sharedMount(at + 1)])
  const script = ['sh', '-c', mountAll, 'sh', ...args]
  await runCommand('nsenter', [`--mount=${layout.mountNamespace(slot)}`, ...script])
}

/**
 * Runtimes do not tell that there is a file where a disk is to be mounted. What links and layers make of a path is left
 * to them. `roots` are the layers of a root, the uppermost first.
 */
export function assertMountPoints(roots: readonly string[], mounts: readonly DiskMount[] = []): void {
  for (const { path } of mounts) {
    const file = fileOnTheWay(roots, path)
    if (file === undefined) continue
    throw new AppError(
      'invalid_argument',
      `A volume cannot be mounted at ${JSON.stringify(path)}: ${JSON.stringify(file)} is a file. Choose a folder of its own, such as /mnt/data`,
    )
  }
}

function fileOnTheWay(roots: readonly string[], path: string): string | undefined {
  let layers = roots
  let place = '/'
  for (const name of path.split('/').filter(Boolean)) {
    place = join(place, name)
    const [found, ...below] = layers.map((root) => lstatSync(join(root, place), { throwIfNoEntry: false }))
    // Nothing, something of a layer below that this one may hide, a link, or the mark of what was deleted.
    if (!found || found.isSymbolicLink() || found.isCharacterDevice()) return undefined
    if (!found.isDirectory()) return place
    const hidden = below.findIndex((lower) => lower !== undefined && !lower.isDirectory())
    layers = hidden < 0 ? layers : layers.slice(0, hidden + 1)
  }
  return undefined
}

/** What gVisor says when a file or folder that a process had open has gone from a disk that others changed meanwhile. */
const openFileIsGone = /CompleteRestore\(\) failed.*failed to walk "(.*)" of type/

/** Undefined: the complaint is about something else. */
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

/** Processes that go on expect the mounts they had. */
export function assertSamePaths(before: readonly DiskMount[] = [], now: readonly DiskMount[] = []): void {
  const isSame = before.length === now.length && before.every(({ path }, at) => path === now[at]!.path)
  if (isSame) return
  throw new AppError(
    'unprocessable',
    'The memory was saved with other disks mounted than the sandbox is to have now. Start without memory.',
  )
}
