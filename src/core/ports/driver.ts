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
 * A signal that aborts makes the verb reject with the signal's reason. What the verb had begun may be half done
 * then, except where the verb promises otherwise; calling it again finishes it.
 */

import type { AddressRules, GatePorts } from './egress.ts'
import type { PackedFile, PackNote, PackTarget } from './object-store.ts'

/** What the caller stores to find the sandbox again after a restart. Only the driver reads `data`. */
export type DriverHandle = {
  driver: string
  version: number
  data: Record<string, string | number | boolean>
}

/** What memory needs of the machine that reads it back: plain JSON, which only the driver reads. */
export type MemoryNeeds = Readonly<Record<string, string>>

export type SandboxSize = {
  cpuCount: number
  memoryMB: number
  /** How much the sandbox may write, in MiB. */
  diskMB: number
  /** Missing: none. */
  gpuCount?: number
}

export type SandboxSpec = SandboxSize & {
  sandboxID: string
  /** Fences one life of the sandbox from the next. */
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
  /** What may leave it, from its first packet on. */
  egress: AddressRules
  /**
   * Disks that the sandbox shares with others, mounted again at every start: no snapshot has any of what they hold.
   * Processes go on from a snapshot only where the same paths are mounted.
   */
  mounts?: readonly DiskMount[]
  /**
   * A snapshot to start from. Its root replaces the root given here. Processes that go on from memory keep the CPUs, the
   * memory and as many GPUs as they were saved with; a boot gets what is given here. The snapshot's own disk keeps its size, a copy of it
   * may grow.
   */
  fromSnapshot?: RestoreSpec
  /** Nobody would miss it, until `adopt` says that it has an owner. */
  disposable?: boolean
  /** Nobody waits for it: until `adopt`, others get the CPU before its processes. */
  background?: boolean
}

/** A disk whose files have owners as in a prepared root. */
export type DiskMount = {
  /** A block device of the host, which stays what it is at least until the start is over. */
  device: string
  /** For all mounts of the disk alike, in the form of `mount -o`. */
  options: string
  /** The folder of the disk that the sandbox sees; it sees nothing else of it. */
  folder: string
  /** Where the sandbox sees it: an absolute path, made if it is not there. */
  path: string
}

/** A restored sandbox gets an id, an address and an identity in /etc of its own. */
export type RestoreSpec = {
  folder: string
  /** True: processes go on where they were. False: the sandbox boots anew on the files of the snapshot. */
  memory: boolean
  /**
   * True: any number of sandboxes may start from the snapshot, which does not change.
   * False: one sandbox runs on the very files of the snapshot. As long as that sandbox is there, every other
   * start from the snapshot is a `conflict`. The snapshot stays until `removeSnapshot`, which does not touch the
   * sandbox: `findSnapshot` finds it, without memory, because the files have moved on from what memory knows of
   * them. Once the sandbox is gone, a start without memory boots on the files as the sandbox left them. A start
   * that rejects leaves the snapshot as it was, or without its memory if processes had already begun to run.
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
  /** Missing: it has no GPU, or what it does cannot be read. */
  gpu?: GpuUse
}

/** Of all GPUs of a sandbox together. Where sandboxes share a GPU, each is told what all of them use of it. */
export type GpuUse = {
  /** How much of the time something ran on them, in percent. */
  busyPct: number
  memoryUsedBytes: number
  memoryTotalBytes: number
}

/** The GPUs that sandboxes can have on this machine. */
export type GpuCapacity = {
  model: string
  /** A GPU that sandboxes share counts as often as sandboxes can have it. */
  total: number
  free: number
  /** The most that one sandbox can have. */
  mostPerSandbox: number
}

/** What the disk of a sandbox takes of the machine's. */
export type DiskUse = {
  sandboxID: string
  allocatedBytes: number
  /** Written by its processes, and still on the way to the disk. */
  unwrittenBytes: number
}

/** What a sandbox takes of the machine's memory. */
export type MemoryUse = {
  sandboxID: string
  /** Without what the kernel can drop at any time. */
  usedBytes: number
  /** The most that it may take, with what its runtime needs itself. */
  promisedBytes: number
}

/** Whether the driver can work here; where it cannot, why, and what to do about it. */
export type ProbeResult = { usable: true; detail: string } | { usable: false; reason: string; remedy: string }

export type FoundSandbox = ReadableSandbox | UnreadableSandbox

export type ReadableSandbox = {
  sandboxID: string
  /** Empty where the sandbox was cut off before anything was made of it; `stop` removes what is there. */
  runID: string
  handle: DriverHandle
  /** The folders that its root stands on; empty where nothing was made yet. */
  roots: readonly string[]
  /** It was started as such and never adopted, or nothing was made of it yet. */
  disposable: boolean
  unreadable?: undefined
}

/** Something of this sandbox is there, but what could not be found out: whatever it may hold is to be left alone. */
export type UnreadableSandbox = { sandboxID: string; unreadable: Error }

/** How the processes of a sandbox ended when nobody had asked the driver to end them. */
export type SandboxExit = {
  sandboxID: string
  runID: string
  /** `killed`: by a signal from outside the sandbox; `crashed`: in any other way, an agent that was killed inside among them. */
  reason: 'out_of_memory' | 'killed' | 'crashed'
  /** What else is known, as a full sentence. */
  detail: string
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
  /** Can make a snapshot on one machine usable on another: `CanExportSnapshots`. Never without `snapshotFiles`. */
  exportSnapshots: boolean
}

export interface Driver {
  readonly name: string
  readonly capabilities: DriverCapabilities
  /** As it is at this moment. Missing: no sandbox can have a GPU here, and a start that asks for one rejects. */
  readonly gpus?: GpuCapacity | undefined
  probe(): Promise<ProbeResult>
  /** Makes this process the one that starts sandboxes here; what an earlier one prepared and left is cleared. */
  open(): Promise<void>
  /**
   * Makes the folder of a root filesystem, or of one of its layers, fit for sandboxes of this driver. Owners in it
   * are those that a sandbox sees, or already what this driver makes of them; to tell these apart is the driver's
   * matter. Once per folder; a second call changes nothing.
   */
  prepare(folder: string): Promise<void>
  /** Resolves once the agent process runs (it may not listen yet). Rejects with nothing left behind. */
  start(spec: SandboxSpec, signal?: AbortSignal): Promise<DriverHandle>
  /** Says that a sandbox that was started as disposable has an owner. Said already is success. */
  adopt(handle: DriverHandle): Promise<void>
  /**
   * `paused`: all its processes stand still, because of `freeze`, or because a snapshot was cut off; thaw it.
   * `gone`: it is certain that no process of it runs. It may still be listed: its processes died, or a snapshot
   * that ends it was cut off after all was kept. Rejects when neither can be said for certain.
   */
  recover(handle: DriverHandle, signal?: AbortSignal): Promise<'running' | 'paused' | 'gone'>
  /**
   * Ends every process and removes every trace. Already gone is success. Rejects within a bounded time when a
   * process does not die; the sandbox is still listed then.
   */
  stop(handle: DriverHandle, signal?: AbortSignal): Promise<void>
  /**
   * Calls the listener within a second of the end of a sandbox's first process, agent or runtime, for every
   * sandbox that this driver started, or recovered as running or paused, since it was made. Once per run, and not
   * when `stop` or a snapshot ended it. The sandbox is `gone` then and still listed: the caller stops it. The
   * function that comes back ends the calls.
   */
  onExit(listener: (exit: SandboxExit) => void): () => void
  endpoint(handle: DriverHandle, port: number): Endpoint
  /** Reads only. A sandbox that is gone is `not_found`. */
  stats(handle: DriverHandle, signal?: AbortSignal): Promise<SandboxStats>
  /**
   * The disks of all sandboxes, as far as they can be read: cheap enough to be asked several times a second. Missing: it
   * cannot be told.
   */
  diskUse?(): Promise<DiskUse[]>
  /** The same for the memory of all sandboxes. */
  memoryUse?(): Promise<MemoryUse[]>
  /**
   * Everything of this driver that is really there, half-made things included. An entry that could not be read is
   * listed as such; rejects when it is not certain that all was seen.
   */
  list(): Promise<FoundSandbox[]>
  /** Releases what the driver holds in this process. Sandboxes live on. */
  close(): Promise<void>
}

export interface CanFreeze {
  /**
   * All processes stand still, in memory. Frozen already is success. After an abort they go on. `whileBusy`: they are in the
   * middle of work, so the safest way counts more than the fastest.
   */
  freeze(handle: DriverHandle, signal?: AbortSignal, options?: { whileBusy?: boolean }): Promise<void>
  /** They go on; a snapshot of it that was taken with `stay-frozen` is removed first. Running already is success. */
  thaw(handle: DriverHandle, signal?: AbortSignal): Promise<void>
}

export type SnapshotOptions = {
  memory: boolean
  /**
   * What becomes of the sandbox: it goes on as if nothing had been; it stands still until `thaw`, and the snapshot
   * is for the case that the machine goes down before; or it ends, and only the snapshot is left. What the sandbox
   * was made of may take a moment longer to go; the next verb waits for that.
   */
  afterwards: 'go-on' | 'stay-frozen' | 'end'
  /** False: the snapshot is needed only now, so nobody waits until it is safe from a power cut. */
  lasting: boolean
  /** So many sandboxes are going to be started from it right after: the driver may prepare for them meanwhile. */
  startsAfter?: number
}

export type Snapshot = {
  folder: string
  /** It holds memory that a start can use. */
  memory: boolean
  /** The size of the sandbox it was taken of; processes that go on from its memory keep it. */
  size: SandboxSize
  /** What it takes on disk, in bytes, without what it shares with others. */
  bytes: number
  /** The folders that the root of a sandbox started from it stands on. */
  roots: readonly string[]
  /** It was imported: another machine made it. */
  imported?: true
}

/** A snapshot as another machine can use it; the note belongs to the files. */
export type PortableSnapshot = {
  files: readonly PackedFile[]
  note: PackNote
  /** Null: there is no memory in it. */
  needs: MemoryNeeds | null
}

export interface CanSnapshot {
  /**
   * Memory and written files of one moment, in a folder that is not there yet, below the data folder. The folder
   * is there whole or not at all. A snapshot that rejects leaves the sandbox as it was. One that stands still because of
   * `freeze` is a `conflict`, unless it did so `whileBusy` and is to end with a snapshot of its memory.
   */
  takeSnapshot(
    handle: DriverHandle,
    folder: string,
    options: SnapshotOptions,
    signal?: AbortSignal,
  ): Promise<Snapshot>
  /**
   * Undefined: it is certain that no whole snapshot is there. Rejects when one may be there but could not be read,
   * or was written by a version that is not known.
   */
  findSnapshot(folder: string): Promise<Snapshot | undefined>
  /** Removes a snapshot, whole or cut off. Sandboxes that were started from it are not touched. */
  removeSnapshot(folder: string): Promise<void>
}

export interface CanExportSnapshots {
  /**
   * What other machines need of a whole snapshot. The files stay as they are as long as nobody starts from it with
   * `keep: false` and nobody removes it. Undefined: there is none, for certain. Rejects with `unprocessable` when it
   * can be used on this machine alone.
   */
  exportSnapshot(folder: string): Promise<PortableSnapshot | undefined>
  /** Why memory with these needs cannot be used on this machine, as a sentence. Undefined: it can. */
  whyUnfit(needs: MemoryNeeds): Promise<string | undefined>
  /**
   * Makes a snapshot of what was exported elsewhere, in a folder that is not there yet: whole or not at all. `fetch`
   * asks where each file goes, once it knows the note, and resolves with false where there is nothing to fetch; then
   * so does this, with undefined. Memory that is not wanted, or cannot be used here, is left out.
   */
  importSnapshot(
    folder: string,
    options: { memory: boolean },
    fetch: (targetOf: (note: PackNote) => Promise<PackTarget>) => Promise<boolean>,
  ): Promise<Snapshot | undefined>
}

export interface CanLimitEgress {
  /**
   * Replaces the rules of a sandbox at once, for connections that are open too. After a rejection it is unknown which
   * rules hold, the old or the new ones. The next call then really applies its rules, the same ones too: that they were
   * asked for, or written down, before proves nothing. Rejects with `unavailable` where the machine failed, in words that a
   * client may see.
   */
  limitEgress(handle: DriverHandle, rules: AddressRules): Promise<void>
  /**
   * Where the gate has to listen, once the driver is open; only sandboxes reach it, and only by what `toGate`
   * hands over.
   */
  readonly gateAddress: string
  /** From now on there is a gate. Before that, and when it is gone, connections that should go to it are rejected. */
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

export function canLimitEgress(driver: Driver): driver is Driver & CanLimitEgress {
  return driver.capabilities.limitEgress
}
