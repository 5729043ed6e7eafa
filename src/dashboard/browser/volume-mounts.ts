/** Which sandboxes have a volume mounted. */
import type { ListedSandbox } from '../../contract/rest/sandbox.ts'
import { askAll } from './rest.ts'

export type MountedIn = { sandboxID: string; path: string }

/** By the name of the volume. A paused sandbox counts: it needs the volume when it is resumed. */
export async function readMounts(team: string, signal: AbortSignal): Promise<Map<string, MountedIn[]>> {
  return mountsOf(await askAll<ListedSandbox>('/v2/sandboxes?state=running,paused', { team, signal }))
}

export function mountsOf(
  sandboxes: readonly Pick<ListedSandbox, 'sandboxID' | 'volumeMounts'>[],
): Map<string, MountedIn[]> {
  const mounts = new Map<string, MountedIn[]>()
  for (const { sandboxID, volumeMounts = [] } of sandboxes) {
    for (const { name, path } of volumeMounts) {
      mounts.set(name, [...(mounts.get(name) ?? []), { sandboxID, path }])
    }
  }
  return mounts
}
