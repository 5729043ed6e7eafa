/** Keys of objects. The object under a key never changes. */
import type { ObjectKey } from '../ports/object-store.ts'

export const sandboxPrefix = 'sandboxes/'
export const buildPrefix = 'builds/'
export const layerPrefix = 'layers/'
export const filesPrefix = 'files/'
const basePrefix = 'bases/'

/** A paused sandbox keeps its run ID and every start makes a new one, so the run ID identifies the bytes. */
export const sandboxKey = ({ sandboxID, runID }: { sandboxID: string; runID: string }): ObjectKey =>
  `${sandboxPrefix}${sandboxID}/${runID}`

/** The key of a build's snapshot. Snapshot names are never used twice. */
export const buildKey = (snapshotName: string): ObjectKey => `${buildPrefix}${snapshotName}`

export const layerKey = (digest: string): ObjectKey =>
  `${layerPrefix}${digest.slice(digest.indexOf(':') + 1)}`

export const filesKey = (teamID: string, hash: string): ObjectKey => `${filesPrefix}${teamID}/${hash}`

/** The key under which the digest of the first base made from this recipe is stored. */
export const baseKey = (recipe: string): ObjectKey => `${basePrefix}${recipe}`
