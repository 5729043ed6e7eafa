/** The folders of snapshots: one each, below the data folder. The driver owns their contents. */
import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { SnapshotFolders } from '../../core/sandbox/snapshots/snapshot-store.ts'

export function snapshotFolders(folder: string): SnapshotFolders {
  return {
    folder: (name) => join(folder, name),
    async names() {
      const entries = await readdir(folder)
      // A snapshot that is being taken has a suffix to its name.
      return [...new Set(entries.map((entry) => entry.split('.', 1)[0]!))]
    },
    async bytesOf(names) {
      const links = new Map<number, { left: number; bytes: number }>()
      for (const name of names) {
        for (const path of await filesIn(join(folder, name))) {
          const found = await lstat(path).catch(() => undefined)
          if (!found) continue
          const file = links.get(found.ino) ?? { left: found.nlink, bytes: found.blocks * 512 }
          links.set(found.ino, { ...file, left: file.left - 1 })
        }
      }
      return [...links.values()].reduce((sum, { left, bytes }) => (left === 0 ? sum + bytes : sum), 0)
    },
  }
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
}
