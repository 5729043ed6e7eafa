/**
 * The driver port: one way to make a sandbox real. A driver sees a root filesystem, sizes, a network and an
 * agent to start; it never sees a team, a key, a timeout, an HTTP status or a row. Commands do not pass
 * through it: they go from the edge to the agent.
 *
 * A driver never guesses. It says that something is not there (`gone`, `undefined`, `not_found`, missing from
 * `list`) only when it knows that. Whatever it could not find out, because a file could not be read or was
 * written by a version it does not know, rejects; the caller leaves that sandbox or snapshot alone and tries
 * again later.
 *
 * A signal that aborts makes the verb reject with the signal's reason. The verb's work may then be half done,
 * except where the verb promises otherwise; calling the verb again finishes the work.
 */

import type { AgentProgram } from './agent-program.ts'
import type { CanShareConnections } from './connection-shares.ts'
import type { AddressRules, GatePorts } from './egress.ts'
import type { GpuCapacity, GpuUse } from './gpu.ts'
import type { MemoryLoad, PartsOfFile } from './memory-load.ts'
import type { PackedFile, PackNote, PackTarget } from './object-store.ts'
import type { CanMeasureUse } from './resource-use.ts'

/** The caller stores this to find the sandbox again after a restart. Only the driver reads `data`. */
export type DriverHandle = {
  driver: string
  version: number
  data: Record<string, string | number | boolean>
}

/** Identifies one start of a sandbox: no other start, of this sandbox or another one, has the same handle. */
export const startOf = ({ driver, data }: DriverHandle): string => JSON.stringify([driver, data])

/** Properties that a machine needs to restore this memory: plain JSON, which only the driver reads. */
export type MemoryNeeds = Readonly<Record<string, string>>

export type SandboxSize = {
  cpuCount: number
  memoryMB: number
  /** How much the sandbox may write, in MiB. */
  diskMB: number
  /** Missing: no GPUs. */
  gpuCount?: number
}

export type SandboxSpec = SandboxSize & {
  sandboxID: string
  /** A new id for each start or resume, so that work of an earlier run cannot reach a later one. */
  runID: string
  /** The folder of a root filesystem, or of its uppermost layer. Sandboxes share it and never write to it. */
  rootFolder: string
  /**
   * Layers of the root filesystem below `rootFolder`, the nearest first. A name in a layer hides the same name
   * in all layers below it, but folders of one name are seen as one. A character device with the number 0:0
   * says that its name does not exist from there downwards; a folder with the attribute
   * `trusted.overlay.opaque` set to `y` hides what the layers below have in it.
   */
  lowerFolders?: readonly string[]
  agent: AgentProgram
  /** The egress policy, which holds from the sandbox's first packet on. */
  egress: AddressRules
  /**
   * Disks that the sandbox shares with others. The driver mounts them at every start; no snapshot contains their
   * files. Memory can be restored only if the same paths are mounted.
   */
  mounts?: readonly DiskMount[]
  /**
   * A snapshot to start from. Its root replaces the root given here. Restored processes keep the CPUs, the memory
   * and the number of GPUs that they had; a boot gets the sizes given here. The snapshot's own disk keeps its
   * size; a copy of it may grow.
   */
  fromSnapshot?: RestoreSpec
  /** The sandbox has no owner until `adopt`, and may be stopped at any time before that. */
  disposable?: boolean
  /** Until `adopt`, all other sandboxes get the CPU before this one, because no client waits for it. */
  background?: boolean
}

/** A disk whose files have owners as in a prepared root. */
export type DiskMount = {
  /** A block device of the host. It must not change before the start has ended. */
  device: string
  /** Mount options in the form of `mount -o`, the same for all mounts of this disk. */
  options: string
  /** The sandbox sees this folder of the disk and no other. */
  folder: string
  /** Mount point inside the sandbox: an absolute path, created if it does not exist. */
  path: string
}

/** A restored sandbox gets an id, an address and an identity in /etc of its own. */
export type RestoreSpec = {
  folder: string
  /** True: processes continue where they were. False: the sandbox boots on the files of the snapshot. */
  memory: boolean
  /**
   * True: any number of sandboxes may start from the snapshot, which does not change.
   * False: one sandbox runs on the very files of the snapshot. As long as that sandbox exists, every other
   * start from the snapshot is a `conflict`. The snapshot stays until `removeSnapshot`, which does not touch the
   * sandbox: `findSnapshot` finds it, without memory, because the files no longer match that memory. Once the
   * sandbox is gone, a start without memory boots on the files as the sandbox left them. A start that rejects
   * leaves the snapshot as it was, or without its memory if processes had already begun to run.
   */
  keepSnapshot: boolean
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
  /** Missing: the sandbox has no GPU, or the GPU's figures cannot be read. */
  gpu?: GpuUse
  /** Bytes that the sandbox sent since the start of this run, to anybody. Missing: they cannot be read. */
  sentBytes?: number
}

/** Whether the driver works on this machine; if not, why, and what the operator can do. */
export type ProbeResult = { usable: true; detail: string } | { usable: false; reason: string; remedy: string }

export type FoundSandbox = ReadableSandbox | UnreadableSandbox

export type ReadableSandbox = {
  sandboxID: string
  /** Empty if the start was cut off before it made anything; `stop` removes the remains. */
  runID: string
  handle: DriverHandle
  /** The folders of its root filesystem; empty if the start was cut off before it made one. */
  roots: readonly string[]
  /** It was started as disposable and never adopted, or its start was cut off before it made anything. */
  disposable: boolean
  unreadable?: undefined
}

/** The driver found a sandbox that it cannot read. The caller must leave this sandbox alone. */
type UnreadableSandbox = { sandboxID: string; unreadable: Error }

/** How the processes of a sandbox ended when nobody had asked the driver to end them. */
export type SandboxExit = {
  sandboxID: string
  runID: string
  /** `killed`: by a signal from outside the sandbox; `crashed`: any other end, such as an agent killed from inside. */
  reason: 'out_of_memory' | 'killed' | 'crashed'
  /** Further details, as a full sentence. */
  detail: string
}

/** The start of a sandbox whose address another sandbox gets next. */
export type FreedAddress = { sandboxID: string; handle: DriverHandle }

/** The powers that a driver may lack: a flag here, an interface with its methods, and a function that narrows to it. */
export type DriverCapabilities = {
  /** Can freeze and thaw all processes of a sandbox: `CanFreeze`. */
  freeze: boolean
  /** Can take a snapshot of a sandbox's files and start others from it: `CanSnapshot`. */
  snapshotFiles: boolean
  /** Snapshots can contain memory. Never without `snapshotFiles`. */
  snapshotMemory: boolean
  /** Can change the egress policy of a running sandbox, and hand connections to a gate: `CanLimitEgress`. */
  limitEgress: boolean
  /** Can make a snapshot on one machine usable on another: `CanExportSnapshots`. Never without `snapshotFiles`. */
  exportSnapshots: boolean
  /** Can start a sandbox while its memory still arrives: `CanFillMemory`. Never without `exportSnapshots`. */
  fillMemory: boolean
  /** Can measure the disk space and memory of all sandboxes at once: `CanMeasureUse`. */
  measureUse: boolean
  /** Can share connections among sandboxes by owner: `CanShareConnections`. */
  shareConnections: boolean
}

export interface Driver {
  readonly name: string
  readonly capabilities: DriverCapabilities
  /** GPUs of this moment. Undefined: this machine has no GPU for sandboxes, and a start that asks for one rejects. */
  readonly gpus: GpuCapacity | undefined
  probe(): Promise<ProbeResult>
  /** From now on this process starts the sandboxes here. Removes what an earlier process had prepared. */
  open(): Promise<void>
  /**
   * Prepares the folder of a root filesystem, or of one of its layers, for sandboxes of this driver. Owners of the
   * files are those that a sandbox sees, or those that an earlier `prepare` has set; the driver recognizes which.
   * A second call for a folder changes nothing.
   */
  prepare(folder: string): Promise<void>
  /** Resolves once the agent process runs (it may not listen yet). Rejects with nothing left behind. */
  start(spec: SandboxSpec, signal?: AbortSignal): Promise<DriverHandle>
  /** Tells the driver that a disposable sandbox now has an owner. Adopting a sandbox twice is success. */
  adopt(handle: DriverHandle): Promise<void>
  /**
   * `frozen`: all its processes are frozen, by `freeze` or by a snapshot that was cut off; thaw it.
   * `gone`: none of its processes runs, for certain. It may still be listed: its processes died, or a snapshot
   * that ends it was cut off after it was complete. Rejects if the driver is not certain.
   */
  recover(handle: DriverHandle, signal?: AbortSignal): Promise<'running' | 'frozen' | 'gone'>
  /**
   * Ends every process and removes every trace of the sandbox. Stopping one that is gone is success. Rejects
   * within a bounded time if a process does not die; the sandbox is still listed then.
   */
  stop(handle: DriverHandle, signal?: AbortSignal): Promise<void>
  /**
   * Calls the listener within a second of the end of a sandbox's first process, agent or runtime, for every
   * sandbox that this driver started, or recovered as running or paused, since it was made. Once per run, and not
   * when `stop` or a snapshot ended it. The sandbox is `gone` then and still listed: the caller stops it. The
   * returned function removes the listener.
   */
  onExit(listener: (exit: SandboxExit) => void): () => void
  /**
   * Calls the listener whenever a sandbox has ended, by `stop` or by a snapshot, right before its address is free for
   * another sandbox: whatever leads to the address must be forgotten now. The returned function removes the listener.
   */
  onAddressFree(listener: (freed: FreedAddress) => void): () => void
  endpoint(handle: DriverHandle, port: number): Endpoint
  /** Changes nothing. Rejects with `not_found` if the sandbox is gone. */
  stats(handle: DriverHandle, signal?: AbortSignal): Promise<SandboxStats>
  /**
   * All sandboxes of this driver on this machine, half-made ones included. An entry that could not be read is
   * listed as unreadable. Rejects if the list may be incomplete.
   */
  list(): Promise<FoundSandbox[]>
  /** Releases the driver's resources in this process. Sandboxes keep running. */
  close(): Promise<void>
}

export interface CanFreeze {
  /**
   * Freezes all processes in memory. Freezing a frozen sandbox is success. After an abort the processes continue.
   * `whileBusy`: the processes are in the middle of work, so the driver takes the safest way, not the fastest.
   */
  freeze(handle: DriverHandle, signal?: AbortSignal, options?: { whileBusy?: boolean }): Promise<void>
  /**
   * Lets all processes continue. Removes a snapshot that was taken with `stay-frozen` first. Thawing a running sandbox
   * is success.
   */
  thaw(handle: DriverHandle, signal?: AbortSignal): Promise<void>
}

export type SnapshotOptions = {
  memory: boolean
  /**
   * What happens to the sandbox. `go-on`: it keeps running. `stay-frozen`: it stays frozen until `thaw`, and the
   * snapshot is a backup in case the machine goes down. `end`: it ends, and only the snapshot is left; the driver
   * may clean up a moment longer, and the next verb waits for that.
   */
  afterwards: 'go-on' | 'stay-frozen' | 'end'
  /** False: the snapshot is needed only for now, so it need not survive a power cut. */
  lasting: boolean
  /** Number of sandboxes that start from the snapshot right after; the driver may prepare for them meanwhile. */
  startsAfter?: number
}

export type Snapshot = {
  folder: string
  /** Whether it contains memory that a start can restore: memory and files are of one moment. */
  memory: boolean
  /** A sandbox has run on its files since it was taken. */
  used?: true
  /** The size of the sandbox that it was taken of; processes restored from its memory keep this size. */
  size: SandboxSize
  /** Disk space in bytes, without blocks that it shares with other snapshots. */
  bytes: number
  /** The folders of the root filesystem of a sandbox that is started from it. */
  roots: readonly string[]
  /** The snapshot was taken on another machine and imported. */
  imported?: true
  /** One sandbox may start from it while `fillMemory` brings its memory. It is worth nothing without its pack. */
  arriving?: true
}

export type ImportOptions = {
  memory: boolean
  /**
   * Import everything but the bulk of the memory, if the driver can; otherwise it imports all of it. A start that comes later
   * than `arrivingKeptMs` needs another import.
   */
  memoryLater?: boolean
}

/** A snapshot in a form that another machine can import; the note describes the files. */
export type PortableSnapshot = {
  files: readonly PackedFile[]
  note: PackNote
  /** Null: the snapshot contains no memory. */
  needs: MemoryNeeds | null
}

export interface CanSnapshot {
  /**
   * Takes a snapshot of memory and written files at one moment. `folder` is below the data folder and must not exist;
   * it appears complete or not at all. A snapshot that rejects leaves the sandbox as it was. Rejects with `conflict` if
   * the sandbox is frozen, unless it was frozen `whileBusy` and ends with a snapshot of its memory.
   */
  takeSnapshot(
    handle: DriverHandle,
    folder: string,
    options: SnapshotOptions,
    signal?: AbortSignal,
  ): Promise<Snapshot>
  /**
   * Undefined: the folder holds no complete snapshot, for certain. Rejects if there may be one that could not be
   * read, or that an unknown version has written.
   */
  findSnapshot(folder: string): Promise<Snapshot | undefined>
  /** Removes a snapshot, complete or cut off. Sandboxes that were started from it are not touched. */
  removeSnapshot(folder: string): Promise<void>
}

export interface CanExportSnapshots {
  /**
   * Lists the files that another machine needs to import a complete snapshot. The files do not change until a
   * start from the snapshot with `keep: false`, or until the snapshot is removed. Undefined: there is no snapshot,
   * for certain. Rejects with `unprocessable` if the snapshot can be used on this machine only.
   */
  exportSnapshot(folder: string): Promise<PortableSnapshot | undefined>
  /** The needs that a snapshot of the sandbox's memory would have now. */
  memoryNeeds(handle: DriverHandle): Promise<MemoryNeeds>
  /** The needs of an exported snapshot, by its note. Null if it has no memory. */
  needsIn(note: PackNote): MemoryNeeds | null
  /** Why memory with these needs cannot be used on this machine, as a sentence. Undefined: it can. */
  whyUnfit(needs: MemoryNeeds): Promise<string | undefined>
  /**
   * Imports a snapshot that another machine exported. `folder` must not exist; it appears complete or not at all.
   * `fetch` reads the note, asks `targetOf` where each file goes, and resolves with false if there is nothing to
   * fetch; then this resolves with undefined. Memory that is not wanted, or cannot be used here, is left out.
   * An arriving snapshot in the folder is replaced.
   */
  importSnapshot(
    folder: string,
    options: ImportOptions,
    fetch: (targetOf: (note: PackNote) => Promise<PackTarget>) => Promise<boolean>,
  ): Promise<Snapshot | undefined>
}

export interface CanFillMemory {
  /**
   * Brings the memory of an arriving snapshot, first those parts for which a thread of the sandbox waits. Resolves
   * when nobody reads it any more: the sandbox has all of it, or is gone; `awaitMemory` says which. Rejects if a part
   * cannot be read or written. The sandbox then stands still where it lacks memory, until a later call brings it.
   */
  fillMemory(folder: string, partsOf: PartsOfFile, load: MemoryLoad): Promise<void>
  /** Resolves when the sandbox has all its memory. Rejects if that is not certain, or never will be. */
  awaitMemory(handle: DriverHandle, signal: AbortSignal): Promise<void>
}

export interface CanLimitEgress {
  /**
   * Replaces the rules of a sandbox at once, for open connections too. After a rejection either the old or the new
   * rules hold. The next call applies its rules even if an earlier call asked for the same ones: the record of that
   * call does not prove that its rules hold. Rejects with `unavailable` if the machine failed; clients may see the
   * message.
   */
  limitEgress(handle: DriverHandle, rules: AddressRules): Promise<void>
  /**
   * The address on which the gate has to listen, once the driver is open. Only sandboxes reach it, and only with
   * connections that `toGate` hands over.
   */
  readonly gateAddress: string
  /** Hands connections to the gate from now on. Without a gate, connections that should go to it are rejected. */
  openGate(ports: GatePorts): Promise<void>
}

export function canFreeze(driver: Driver): driver is Driver & CanFreeze {
  return driver.capabilities.freeze
}

export function canSnapshot(driver: Driver): driver is Driver & CanSnapshot {
  return driver.capabilities.snapshotFiles
}

export function canExportSnapshots(driver: Driver): driver is Driver & CanSnapshot & CanExportSnapshots {
  return driver.capabilities.exportSnapshots
}

export function canFillMemory(driver: Driver): driver is Driver & CanSnapshot & CanFillMemory {
  return driver.capabilities.fillMemory
}

export function canLimitEgress(driver: Driver): driver is Driver & CanLimitEgress {
  return driver.capabilities.limitEgress
}

export function canMeasureUse(driver: Driver): driver is Driver & CanMeasureUse {
  return driver.capabilities.measureUse
}

export function canShareConnections(driver: Driver): driver is Driver & CanShareConnections {
  return driver.capabilities.shareConnections
}
