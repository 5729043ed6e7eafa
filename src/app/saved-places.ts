/** Where saved states lie: one folder each, below the data folder. What is in it belongs to the driver. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { SavedPlaces } from '../core/sandbox/saved-states.ts'

export function savedPlaces(folder: string): SavedPlaces {
  return {
    folder: (name) => join(folder, name),
    async names() {
      const entries = await readdir(folder)
      // One that is being made has a suffix to its name.
      return [...new Set(entries.map((entry) => entry.split('.', 1)[0]!))]
    },
  }
}
