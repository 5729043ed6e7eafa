/** Names of snapshots. The name tells what a snapshot is for, and so what it is worth without an owner. */
import { newUUID } from '../../../lib/ids.ts'
import type { TemplateBuild } from '../../template/template.ts'
import type { Sandbox } from '../row/sandbox.ts'

const fork = 'fork-'
const step = 'step-'
const start = '-ready'

/** A snapshot that is needed only until the forks have started. */
export const newForkSnapshotName = (): string => `${fork}${newUUID()}`

/** The snapshot of a build step's result. */
export const newStepSnapshotName = (): string => `${step}${newUUID()}`

/** The snapshot of a build with its service running. */
export const startSnapshotName = ({ buildID }: Pick<TemplateBuild, 'buildID'>): string => `${buildID}${start}`

/** The snapshot that a pause of this run takes. */
export const pauseSnapshotName = ({ sandboxID, runID }: Pick<Sandbox, 'sandboxID' | 'runID'>): string =>
  `${sandboxID}-${runID}`

/**
 * The name for a node's copy of a paused sandbox that it takes over. No other copy on its disk has this name.
 */
export const newSnapshotName = ({ sandboxID }: Pick<Sandbox, 'sandboxID'>): string =>
  `${sandboxID}-${newUUID()}`

/** The sandbox whose pause took the snapshot; null if it was not taken by a pause. */
export const pausedSandboxOf = (name: string): string | null => /^(i[a-z0-9]{20})-/.exec(name)?.[1] ?? null

/**
 * True if the snapshot is worth nothing without an owner: its request is over, or the build can be run again.
 */
export const canBeMadeAgain = (name: string): boolean =>
  name.startsWith(fork) || name.startsWith(step) || name.endsWith(start)
