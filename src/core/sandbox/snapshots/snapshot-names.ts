/** What snapshots are called. The name tells what a snapshot is for, and so what it is worth without an owner. */
import { newUUID } from '../../../lib/ids.ts'
import type { TemplateBuild } from '../../template/template.ts'
import type { Sandbox } from '../row/sandbox.ts'

const fork = 'fork-'
const step = 'step-'
const start = '-ready'

/** Needed only until the forks have started. */
export const newForkSnapshotName = (): string => `${fork}${newUUID()}`

/** What a step of a build made. */
export const newStepSnapshotName = (): string => `${step}${newUUID()}`

/** A build with its service running. */
export const startSnapshotName = ({ buildID }: Pick<TemplateBuild, 'buildID'>): string => `${buildID}${start}`

/** What a pause of this run makes. */
export const pauseSnapshotName = ({ sandboxID, runID }: Pick<Sandbox, 'sandboxID' | 'runID'>): string =>
  `${sandboxID}-${runID}`

/** What a node calls its copy of a paused sandbox that it takes over. No other copy on its disk has this name. */
export const newTakenSnapshotName = ({ sandboxID }: Pick<Sandbox, 'sandboxID'>): string =>
  `${sandboxID}-${newUUID()}`

/** The sandbox whose pause made it; null where it was not made by a pause. */
export const pausedSandboxOf = (name: string): string | null => /^(i[a-z0-9]{20})-/.exec(name)?.[1] ?? null

/** Without an owner it is worth nothing: the request for it is over, or the build can be run again. */
export const canBeMadeAgain = (name: string): boolean =>
  name.startsWith(fork) || name.startsWith(step) || name.endsWith(start)
