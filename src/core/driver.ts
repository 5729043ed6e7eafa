/**
 * The driver port: one way to make a sandbox real. A driver sees a root filesystem, sizes, a network and an
 * agent to start; it never sees a team, a key, a timeout, an HTTP status or a row. Commands do not pass
 * through it: they go from the edge to the agent.
 */

import type { AddressRules, GatePorts } from './egress.ts'

/** What the caller stores to find the sandbox again after a restart. Only the driver reads `data`. */
export type DriverHandle = {
  driver: string
  version: number
  data: Record<string, string | number | boolean>
}

export type SandboxSpec = {
  sandboxID: string
  /** Fences one life of the sandbox from the next. */
  runID: string
  /** Folder of a root filesystem that `prepare` has seen; shared by sandboxes and never written. */
  rootFolder: string
  /** Folders below it, in the form of overlayfs layers with owners already shifted; the nearest first. */
  lowerFolders?: readonly string[]
  cpuCount: number
  memoryMB: number
  /** How much the sandbox may write, in MiB. */
  diskMB: number
  /** What may leave it, from its first packet on. */
  egress: AddressRules
  /** What to start from; root and sizes are then those of the saved sandbox, whatever is said here. */
  fromSnapshot?: RestoreSpec
}

/** Starting from what `save` kept. The sandbox gets an id, an address and an identity in /etc of its own. */
export type RestoreSpec = {
  folder: string
  /** True: processes go on where they were. False: the sandbox boots anew on the saved files. */
  memory: boolean
  /**
   * True: any number of sandboxes may start from it. False: its files are moved into the sandbox; a start that
   * rejects leaves it whole, and after one that resolves it is used up and only to be forgotten.
   */
  keep: boolean
}

export type Endpoint = { host: string; port: number }

export type SandboxStats = {
  /** CPU time used since the start, in milliseconds over all CPUs. */
  cpuTimeMs: number
  memoryUsedBytes: number
  memoryCacheBytes: number
  memoryTotalBytes: number
  diskUsedBytes: number
  diskTotalBytes: number
}

/** Whether the driver can work here; where it cannot, why, and what to do about it. */
export type ProbeResult = { usable: true; detail: string } | { usable: false; reason: string; remedy: string }

export type FoundSandbox = {
  sandboxID: string
  runID: string
  handle: DriverHandle
  /** The folders that its root stands on; empty where nothing was made yet. */
  roots: readonly string[]
}

export type DriverCapabilities = {
  /** Can stop all processes in place and let them go on: `CanFreeze`. */
  freeze: boolean
  /** Can keep a sandbox's files and start others from them: `CanSnapshot`. */
  snapshotFiles: boolean
  /** Can keep its memory with them. Never without `snapshotFiles`. */
  snapshotMemory: boolean
  /** Can change what may leave a sandbox that runs, and hand connections to a gate: `CanLimitEgress`. */
  limitEgress: boolean
}

export interface Driver {
  readonly name: string
  readonly capabilities: DriverCapabilities
  probe(): Promise<ProbeResult>
  /** Makes this process the one that starts sandboxes here; what an earlier one prepared and left is cleared. */
  open(): Promise<void>
  /** Makes a folder fit to be the root of sandboxes. Once per folder; a second call changes nothing. */
  prepare(rootFolder: string): Promise<void>
  /** Resolves once the agent process runs (it may not listen yet). Rejects with nothing left behind. */
  start(spec: SandboxSpec, signal?: AbortSignal): Promise<DriverHandle>
  /**
   * `paused`: all its processes stand still, because of `freeze`, or because a `save` was cut off; thaw it.
   * `gone` may still be listed: its processes died, or a `save` that ends it was cut off after all was kept.
   */
  recover(handle: DriverHandle): Promise<'running' | 'paused' | 'gone'>
  /** Ends every process and removes every trace. Already gone is success. */
  stop(handle: DriverHandle): Promise<void>
  endpoint(handle: DriverHandle, port: number): Endpoint
  stats(handle: DriverHandle): Promise<SandboxStats>
  /** Everything of this driver that is really there, half-made things included. */
  list(): Promise<FoundSandbox[]>
  /** Releases what the driver holds in this process. Sandboxes live on. */
  close(): Promise<void>
}

export interface CanFreeze {
  /** All processes stand still, in memory. Frozen already is success. */
  freeze(handle: DriverHandle): Promise<void>
  /** They go on; what `save` kept of it with `stay-frozen` is forgotten first. Running already is success. */
  thaw(handle: DriverHandle): Promise<void>
}

export type SnapshotOptions = {
  memory: boolean
  /**
   * What becomes of the sandbox: it goes on as if nothing had been; it stands still until `thaw`, and what was
   * kept is for the case that the machine goes down before; or it ends, and only the snapshot is left. What it
   * was made of may take a moment longer to go; the next verb waits for that.
   */
  afterwards: 'go-on' | 'stay-frozen' | 'end'
  /** False: needed only now, so nobody waits until it is safe from a power cut. */
  lasting: boolean
}

export type Snapshot = {
  folder: string
  /** It holds memory that a start can use. */
  memory: boolean
  /** What it takes on disk, without what it shares with others. */
  bytes: number
  /** The folders that the root of a sandbox started from it stands on. */
  roots: readonly string[]
}

export interface CanSnapshot {
  /**
   * Memory and written files of one moment, in a folder that is not there yet, below the data folder. The folder
   * is there whole or not at all. A save that rejects leaves the sandbox as it was.
   */
  takeSnapshot(
    handle: DriverHandle,
    folder: string,
    options: SnapshotOptions,
    signal?: AbortSignal,
  ): Promise<Snapshot>
  /** Undefined: nothing whole is there. */
  findSnapshot(folder: string): Promise<Snapshot | undefined>
  /** Removes a snapshot, whole or cut off. Sandboxes that were started from it are not touched. */
  removeSnapshot(folder: string): Promise<void>
}

export interface CanLimitEgress {
  /** Replaces the rules of a sandbox at once, for connections that are open too. */
  limitEgress(handle: DriverHandle, rules: AddressRules): Promise<void>
  /** Where the gate has to listen; only sandboxes reach it, and only by what `toGate` hands over. Once open. */
  readonly gateAddress: string
  /** From now on there is a gate. Before that, and when it is gone, what should go to it is refused. */
  openGate(ports: GatePorts): Promise<void>
}

export function canFreeze(driver: Driver): driver is Driver & CanFreeze {
  return driver.capabilities.freeze
}

export function canSnapshot(driver: Driver): driver is Driver & CanSnapshot {
  return driver.capabilities.snapshotFiles
}

export function canLimitEgress(driver: Driver): driver is Driver & CanLimitEgress {
  return driver.capabilities.limitEgress
}
