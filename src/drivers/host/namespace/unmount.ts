/**
 * Unmounts by system calls in a separate process: data that is not on disk yet is written back first, which
 * may take long.
 */
import type { CallList } from '../../../lib/call-list.ts'
import { runList } from '../../../lib/run-list.ts'

export const unmount = (path: string): Promise<void> =>
  unmountEach([path], (list, target) => list.add('umount2', target))

/** Ignores paths that cannot be unmounted, or are not mounted. */
export const unmountIfMounted = (paths: readonly string[]): Promise<void> =>
  unmountEach(paths, (list, target) => list.addOptional('umount2', target))

function unmountEach(paths: readonly string[], addCall: (list: CallList, target: number) => void) {
  const dataBytes = Buffer.byteLength(paths.join()) + paths.length
  return runList(dataBytes, (list) => {
    for (const path of paths) addCall(list, list.text(path))
  })
}
