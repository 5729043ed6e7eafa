import type { NetworkOptions } from '../../network-policy/network-options.ts'
import type { DriverHandle } from '../../ports/driver.ts'
import type { VolumeMount } from '../../volume/volume.ts'

export type SandboxState =
  | 'creating'
  | 'running'
  | 'pausing'
  | 'paused'
  | 'snapshotting'
  | 'resuming'
  | 'killing'
  | 'ended'

/** Every legal move. `ended` is final: the row stays, with its reason. */
export const legalMoves: Record<SandboxState, readonly SandboxState[]> = {
  creating: ['running', 'killing'],
  running: ['pausing', 'snapshotting', 'killing'],
  pausing: ['paused', 'running', 'killing'],
  paused: ['resuming', 'killing'],
  snapshotting: ['running', 'killing'],
  resuming: ['running', 'paused', 'killing'],
  killing: ['ended'],
  ended: [],
}

/** States from which `to` may be reached. */
export function statesBefore(to: SandboxState): SandboxState[] {
  return (Object.keys(legalMoves) as SandboxState[]).filter((from) => legalMoves[from].includes(to))
}

/** States that hold CPU and memory, and so count against the team's limits. */
export const activeStates: readonly SandboxState[] = [
  'creating',
  'running',
  'pausing',
  'snapshotting',
  'resuming',
  'killing',
]

/** What the wire shows: a sandbox that is being made or removed does not exist for its team. */
export function isVisible(state: SandboxState): boolean {
  return state !== 'creating' && state !== 'killing' && state !== 'ended'
}

/** The states behind each of the wire's two. */
export const wireStates = {
  running: ['running', 'snapshotting'],
  paused: ['pausing', 'paused', 'resuming'],
} as const satisfies Record<string, readonly SandboxState[]>

export type EndReason =
  | 'killed'
  | 'timeout'
  | 'create_failed'
  /** It was gone, and nobody saw why. */
  | 'lost'
  /** Its processes ended by themselves, as the driver saw. */
  | 'out_of_memory'
  | 'killed_from_outside'
  | 'crashed'
  /** It wrote on while the disk of the machine was full. */
  | 'disk_full'
  /** The memory of the machine was used up, and it was furthest beyond its share. */
  | 'memory_full'

/** What the client asked for and gets told again, kept as it was sent. */
export type SandboxOptions = {
  /** Null: the client did not say. */
  allowInternetAccess: boolean | null
  network: NetworkOptions | null
  /** At the end of its time it is paused, not killed. */
  autoPause: boolean
  /** Whether that pause keeps its memory. */
  autoPauseMemory: boolean
  /** Traffic wakes it. */
  autoResume: boolean
  /** Its agent wants its token; without, whoever knows the id may use it. */
  secure: boolean
  /** The client is older than access tokens: the client ID in its host names stands for the token. */
  tokenInHost?: boolean
  /** Missing: none. */
  volumeMounts?: readonly VolumeMount[]
}

/** What is kept of a paused sandbox. */
export type SandboxSnapshot = {
  /** The snapshot's name in the SnapshotStore. */
  name: string
  /** Its processes go on when it is resumed; otherwise it boots anew on its files. */
  memory: boolean
  /** It stands still in memory, and the snapshot is for the case that the machine goes down. */
  frozen: boolean
  /** Its agent did not answer when it was paused with its memory. */
  agentUnresponsive: boolean
}

export type Sandbox = {
  sandboxID: string
  teamID: string
  templateID: string
  buildID: string
  alias: string | null
  state: SandboxState
  /** A new one for each start or resume: late work of an older run cannot land. */
  runID: string
  /** The last change of state that was given a name. */
  moveID: string | null
  handle: DriverHandle | null
  cpuCount: number
  memoryMB: number
  diskMB: number
  /** Missing: none. */
  gpuCount?: number
  envdVersion: string
  metadata: Record<string, string>
  envVars: Record<string, string>
  options: SandboxOptions
  /** Set while it is paused, and until its resume has succeeded. */
  snapshot: SandboxSnapshot | null
  /** The lifetime asked for at creation. */
  timeoutMs: number
  createdAt: number
  startedAt: number
  endAt: number
  endedAt: number | null
  endReason: EndReason | null
  /** A drain has paused it: it is to run again until this time, wherever its row is. Null: it is paused for good. */
  runUntil: number | null
}

export type NewSandbox = Omit<
  Sandbox,
  'state' | 'moveID' | 'handle' | 'snapshot' | 'endedAt' | 'endReason' | 'runUntil'
>
