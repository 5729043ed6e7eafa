import type { NetworkOptions } from '../../network-policy/network-options.ts'
import type { DriverHandle, MemoryNeeds } from '../../ports/driver.ts'
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

/** Every legal change of state. `ended` is final: the row stays, with its reason. */
export const legalTransitions: Record<SandboxState, readonly SandboxState[]> = {
  creating: ['running', 'killing'],
  // To `paused` only if its memory still arrives from the object store, which has the snapshot.
  running: ['pausing', 'paused', 'snapshotting', 'killing'],
  pausing: ['paused', 'running', 'killing'],
  paused: ['resuming', 'killing'],
  snapshotting: ['running', 'paused', 'killing'],
  resuming: ['running', 'paused', 'killing'],
  killing: ['ended'],
  ended: [],
}

/** States from which a row becomes `paused` only with the snapshot that the object store has. */
export const returningStates: readonly SandboxState[] = ['running', 'snapshotting']

/** States from which `to` may be reached. `returns`: the row goes back to the snapshot that the object store has. */
export function statesBefore(to: SandboxState, { returns }: { returns: boolean }): SandboxState[] {
  const states = (Object.keys(legalTransitions) as SandboxState[]).filter((from) =>
    legalTransitions[from].includes(to),
  )
  return to === 'paused' && !returns ? states.filter((from) => !returningStates.includes(from)) : states
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

/** Whether clients can see a sandbox in this state; one that is being created or killed does not exist for them. */
export function isVisible(state: SandboxState): boolean {
  return state !== 'creating' && state !== 'killing' && state !== 'ended'
}

/** The API knows two states; each stands for several states of a row. */
export const wireStates = {
  running: ['running', 'snapshotting'],
  paused: ['pausing', 'paused', 'resuming'],
} as const satisfies Record<string, readonly SandboxState[]>

export type EndReason =
  | 'killed'
  | 'timeout'
  | 'create_failed'
  /** The sandbox is gone, and no exit of it was reported. */
  | 'lost'
  /** The driver reported that its processes have ended without a stop. */
  | 'out_of_memory'
  | 'killed_from_outside'
  | 'crashed'
  /** The sandbox kept writing while the disk of the machine was full. */
  | 'disk_full'
  /** The memory of the machine was used up, and the sandbox was furthest beyond its share. */
  | 'memory_full'

/** True if somebody chose the end, so that nobody wants the snapshot back. */
export const isChosenEnd = (reason: EndReason): boolean =>
  reason === 'killed' || reason === 'timeout' || reason === 'create_failed'

/** Options of the client's request, stored as they were sent; the API returns them in answers. */
export type SandboxOptions = {
  /** Null: the client did not say. */
  allowInternetAccess: boolean | null
  network: NetworkOptions | null
  /** The sandbox is paused, not killed, when its timeout is over. */
  autoPause: boolean
  /** Whether the automatic pause takes a snapshot with memory. */
  autoPauseMemory: boolean
  /** Traffic resumes the sandbox when it is paused. */
  autoResume: boolean
  /** The agent asks for the sandbox's token. False: anybody who knows the id may use the sandbox. */
  secure: boolean
  /** The client is older than access tokens: the client ID in its host names stands for the token. */
  tokenInHost?: boolean
  /** Missing: no volumes. */
  volumeMounts?: readonly VolumeMount[]
}

/** The snapshot of a paused sandbox. */
export type SandboxSnapshot = {
  /** The snapshot's name in the SnapshotStore. */
  name: string
  /** Its processes continue when it is resumed. False: it boots on its files. */
  memory: boolean
  /** The sandbox is frozen in memory, and the snapshot is a backup in case the machine goes down. */
  frozen: boolean
  /** The agent did not answer when the sandbox was paused with its memory. */
  agentUnresponsive: boolean
  /** What was left of the sandbox's timeout when it was paused; missing if that was over. */
  timeLeftMs?: number
  /**
   * Set from the transition to `resuming` until all memory has arrived from the object store. Until then the object store keeps
   * the snapshot, and the row returns to it if the sandbox is gone.
   */
  arrivesFrom?: RemoteRun
  /**
   * Set from the transition to `resuming` until the next change of the snapshot: the object store has it, and keeps it meanwhile. A resume
   * that fails returns to it if the copy on this machine has been used.
   */
  storedFrom?: RemoteRun
}

/** The run whose snapshot the object store has, with what its row said about that. */
export type RemoteRun = { runID: string; at: number; needs: MemoryNeeds | null; index?: string }

export type Sandbox = {
  sandboxID: string
  teamID: string
  templateID: string
  buildID: string
  alias: string | null
  state: SandboxState
  /** A new id for each start or resume, so that late work of an earlier run has no effect. */
  runID: string
  /** Id of the last change of state that had one; it shows whether a change took effect whose answer was lost. */
  transitionID: string | null
  handle: DriverHandle | null
  cpuCount: number
  memoryMB: number
  diskMB: number
  /** Missing: no GPUs. */
  gpuCount?: number
  /** The person whose key or session made it. Missing: a service or the admin token did. */
  ownerPersonID?: string
  envdVersion: string
  metadata: Record<string, string>
  envVars: Record<string, string>
  options: SandboxOptions
  /** Set while the sandbox is paused, until its resume has succeeded, and until all its memory has arrived. */
  snapshot: SandboxSnapshot | null
  /** The timeout that the create asked for. */
  timeoutMs: number
  createdAt: number
  startedAt: number
  endAt: number
  endedAt: number | null
  endReason: EndReason | null
  /** A drain has paused the sandbox, and the node that owns it resumes it until this time. Null: no drain did. */
  runUntil: number | null
  /**
   * Changes with the state, the run, the node, the snapshot and the options. A row that left this node and came back has another version, so
   * work that began before does not take it for the row that it read.
   */
  version: number
}

export type NewSandbox = Omit<
  Sandbox,
  'state' | 'transitionID' | 'handle' | 'snapshot' | 'endedAt' | 'endReason' | 'runUntil' | 'version'
>
