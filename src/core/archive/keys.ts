/** What objects are called. Each name stands for the same bytes for ever. */
import type { ObjectKey } from '../ports/object-store.ts'

export const sandboxPrefix = 'sandboxes/'
export const buildPrefix = 'builds/'
export const layerPrefix = 'layers/'
export const filesPrefix = 'files/'
export const basePrefix = 'bases/'

/** A paused sandbox keeps its run, and every start makes a new one: so the run names the bytes. */
export const sandboxKey = ({ sandboxID, runID }: { sandboxID: string; runID: string }): ObjectKey =>
  `${sandboxPrefix}${sandboxID}/${runID}`

/** The snapshot of a build; its name is given once. */
export const buildKey = (snapshotName: string): ObjectKey => `${buildPrefix}${snapshotName}`

export const layerKey = (digest: string): ObjectKey =>
  `${layerPrefix}${digest.slice(digest.indexOf(':') + 1)}`

export const filesKey = (teamID: string, hash: string): ObjectKey => `${filesPrefix}${teamID}/${hash}`

/** The digest of the base that was made first by a recipe. */
export const baseKey = (recipe: string): ObjectKey => `${basePrefix}${recipe}`
