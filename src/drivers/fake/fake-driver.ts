/**
 * A driver without processes, for tests of the domain. It keeps the port's promises, and has knobs for what a
 * real machine does to a caller: slow starts, failed starts, sandboxes that crash, entries that cannot be read.
 */
import { isDeepStrictEqual } from 'node:util'
import type {
  CanExportSnapshots,
  CanFreeze,
  CanLimitEgress,
  CanSnapshot,
  Driver,
  DriverCapabilities,
  DriverHandle,
  Endpoint,
  FoundSandbox,
  FreedAddress,
  MemoryNeeds,
  PortableSnapshot,
  ProbeResult,
  RestoreSpec,
  SandboxExit,
  SandboxSpec,
  SandboxStats,
  Snapshot,
  SnapshotOptions,
} from '../../core/ports/driver.ts'
import type { AddressRules, GatePorts } from '../../core/ports/egress.ts'
import type { GpuCapacity } from '../../core/ports/gpu.ts'
import type { PackNote, PackTarget } from '../../core/ports/object-store.ts'
import type { CanMeasureUse, DiskUse, MemoryUse } from '../../core/ports/resource-use.ts'
import { AppError } from '../../lib/app-error.ts'
import { KeyedLock } from '../../lib/keyed-lock.ts'
import { Listeners } from '../../lib/listeners.ts'
import { freeAddress } from './fake-address.ts'
import { type FakeContent, filesOf, readInto } from './fake-content.ts'
import { contentFor, copyOf, orAborted, rootsOf, sizeFor, sizeOf } from './fake-restore.ts'
import { type FakeSandbox, type FakeSnapshot, type FakeWorld, newFakeWorld } from './fake-world.ts'

type FakeDriverOptions = {
  /** The endpoint of every port of every sandbox; a test may run a real server there. */
  endpoint?: Endpoint
  /** A new world by default. Two drivers with the same world act as two processes on one machine. */
  world?: FakeWorld
  /** False: snapshots hold files only, as those of plain containers. */
  snapshotMemory?: boolean
}

export class FakeDriver
  implements Driver, CanFreeze, CanLimitEgress, CanSnapshot, CanExportSnapshots, CanMeasureUse
{
  readonly name = 'fake'
  readonly needsIn = ({ needs }: PackNote) => needs as MemoryNeeds | null
  readonly capabilities: DriverCapabilities
  readonly world: FakeWorld
  gpus: GpuCapacity | undefined
  probeResult: ProbeResult = { usable: true, detail: 'nothing is real' }
  /** Awaited in the middle of every start, when the sandbox is already listed. */
  beforeStarted: (spec: SandboxSpec) => Promise<void> = async () => {}
  /** Awaited before every stop takes effect. */
  beforeStopped: (handle: DriverHandle) => Promise<void> = async () => {}
  /** Awaited before every freeze takes effect. */
  beforeFrozen: (handle: DriverHandle) => Promise<void> = async () => {}
  /** A knob: the disk use that this driver reports, by sandbox. */
  readonly diskUses = new Map<string, Omit<DiskUse, 'sandboxID'>>()
  /** Awaited in the middle of every snapshot, when the sandbox is frozen and the snapshot does not exist yet. */
  beforeSnapshot: (handle: DriverHandle, folder: string) => Promise<void> = async () => {}
  /** Awaited after a stop or a snapshot has ended a sandbox's processes, while the sandbox is still listed. */
  beforeRemoved: (handle: DriverHandle) => Promise<void> = async () => {}
  /** Awaited before new egress rules are recorded. */
  beforeLimited: (rules: AddressRules) => Promise<void> = async () => {}
  /** Awaited after new egress rules are recorded, while the old ones are still enforced. */
  beforeEnforced: (rules: AddressRules) => Promise<void> = async () => {}
  /** A deliberate fault for tests: the driver assumes that recorded rules are enforced. */
  trustsRecord = false
  /** Serializes changes of the rules, so that record and kernel see them in the same order. */
  readonly #egressLocks = new KeyedLock()
  readonly #endpoint: Endpoint | undefined
  /** The runs whose exit this driver reports. */
  readonly #watched = new Set<string>()
  readonly #exits = new Listeners<SandboxExit>()
  readonly #freedAddresses = new Listeners<FreedAddress>()
  onExit = this.#exits.add
  onAddressFree = this.#freedAddresses.add

  constructor(options: FakeDriverOptions = {}) {
    this.#endpoint = options.endpoint
    this.capabilities = {
      freeze: true,
      snapshotFiles: true,
      snapshotMemory: options.snapshotMemory ?? true,
      limitEgress: true,
      exportSnapshots: true,
      fillMemory: false,
      measureUse: true,
      shareConnections: false,
    }
    this.world = options.world ?? newFakeWorld()
    this.world.crashListeners.add(this.#reportExit)
  }

  readonly probe = async (): Promise<ProbeResult> => this.probeResult

  async open(): Promise<void> {}

  async prepare(rootFolder: string): Promise<void> {
    this.world.prepared.add(rootFolder)
  }

  async start(spec: SandboxSpec, signal?: AbortSignal): Promise<DriverHandle> {
    signal?.throwIfAborted()
    if (!this.world.prepared.has(spec.rootFolder)) {
      throw new AppError('unavailable', `${spec.rootFolder} was never prepared`)
    }
    this.#assertReadable(spec.sandboxID)
    if (this.world.sandboxes.has(spec.sandboxID)) {
      throw new AppError('already_exists', `Sandbox ${spec.sandboxID} is already there; stop it first.`)
    }
    const snapshot = spec.fromSnapshot && this.#openSnapshot(spec.fromSnapshot)
    const data = { sandboxID: spec.sandboxID, runID: spec.runID, address: freeAddress(this.world) }
    const handle = { driver: this.name, version: 1, data }
    const content = contentFor(spec.fromSnapshot, snapshot)
    const sandbox: FakeSandbox = {
      spec: { ...spec, ...sizeFor(spec, snapshot) },
      handle,
      running: false,
      frozen: false,
      frozenSnapshot: undefined,
      memory: content.memory,
      files: content.files,
      enforced: spec.egress,
    }
    if (snapshot && !spec.fromSnapshot?.keepSnapshot) snapshot.consumedBy = spec.runID
    this.world.sandboxes.set(spec.sandboxID, sandbox)
    try {
      await orAborted(this.beforeStarted(spec), signal)
    } catch (error) {
      this.world.sandboxes.delete(spec.sandboxID)
      if (snapshot?.consumedBy === spec.runID) snapshot.consumedBy = undefined
      throw error
    }
    sandbox.running = true
    this.#watched.add(spec.runID)
    return sandbox.handle
  }

  async adopt(handle: DriverHandle): Promise<void> {
    const sandbox = this.#alive(handle)
    sandbox.spec = { ...sandbox.spec, disposable: false }
  }

  async recover(handle: DriverHandle, signal?: AbortSignal): Promise<'running' | 'frozen' | 'gone'> {
    signal?.throwIfAborted()
    const sandbox = this.#find(handle)
    if (!sandbox?.running) return 'gone'
    this.#watched.add(sandbox.spec.runID)
    return sandbox.frozen ? 'frozen' : 'running'
  }

  async freeze(handle: DriverHandle, signal?: AbortSignal): Promise<void> {
    await orAborted(this.beforeFrozen(handle), signal)
    this.#alive(handle).frozen = true
  }

  async thaw(handle: DriverHandle, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    const sandbox = this.#alive(handle)
    if (sandbox.frozenSnapshot) this.world.snapshots.delete(sandbox.frozenSnapshot)
    sandbox.frozenSnapshot = undefined
    sandbox.frozen = false
  }

  readonly gateAddress = '127.0.0.1'
  gatePorts: GatePorts | undefined

  async openGate(ports: GatePorts): Promise<void> {
    this.gatePorts = ports
  }

  async limitEgress(handle: DriverHandle, egress: AddressRules): Promise<void> {
    await this.#egressLocks.run(String(handle.data.sandboxID), async () => {
      const sandbox = this.#alive(handle)
      if (this.trustsRecord && isDeepStrictEqual(sandbox.spec.egress, egress)) return
      await this.beforeLimited(egress)
      sandbox.spec = { ...sandbox.spec, egress }
      await this.beforeEnforced(egress)
      sandbox.enforced = egress
    })
  }

  async takeSnapshot(
    handle: DriverHandle,
    folder: string,
    { memory, afterwards }: SnapshotOptions,
    signal?: AbortSignal,
  ): Promise<Snapshot> {
    const sandbox = this.#alive(handle)
    if (memory && !this.capabilities.snapshotMemory) {
      throw new AppError('invalid_argument', 'This fake has no memory; take a snapshot of the files only.')
    }
    if (this.world.snapshots.has(folder)) {
      throw new AppError('already_exists', `${folder} holds a snapshot already.`)
    }
    const { frozen: wasFrozen, frozenSnapshot } = sandbox
    if (wasFrozen && !(memory && afterwards === 'end' && !frozenSnapshot))
      throw new AppError('conflict', 'The sandbox is frozen; thaw it before a snapshot is taken of it.')
    signal?.throwIfAborted()
    sandbox.frozen = true
    try {
      await orAborted(this.beforeSnapshot(handle, folder), signal)
      this.#alive(handle)
    } catch (error) {
      sandbox.frozen = wasFrozen
      throw error
    }
    this.world.snapshots.set(folder, {
      spec: sandbox.spec,
      content: copyOf(sandbox),
      memory,
      consumedBy: undefined,
    })
    if (afterwards === 'go-on') sandbox.frozen = false
    else if (afterwards === 'stay-frozen') sandbox.frozenSnapshot = folder
    else await this.#remove(sandbox)
    return (await this.findSnapshot(folder))!
  }

  async findSnapshot(folder: string): Promise<Snapshot | undefined> {
    this.#assertReadable(folder)
    const snapshot = this.world.snapshots.get(folder)
    if (!snapshot) return undefined
    // The sandbox that consumed the snapshot has changed its files, so they no longer match its memory.
    const memory = snapshot.memory && !snapshot.consumedBy
    return {
      folder,
      memory,
      size: sizeOf(snapshot.spec),
      bytes: 1,
      roots: rootsOf(snapshot.spec),
      ...(snapshot.consumedBy && { used: true as const }),
      ...(snapshot.imported && { imported: snapshot.imported }),
    }
  }

  async removeSnapshot(folder: string): Promise<void> {
    this.world.snapshots.delete(folder)
  }

  async exportSnapshot(folder: string): Promise<PortableSnapshot | undefined> {
    const found = await this.findSnapshot(folder)
    if (!found) return undefined
    const { spec, content } = this.world.snapshots.get(folder)!
    const needs = found.memory ? { cpu: this.world.cpu } : null
    return { files: filesOf(content), note: { spec, needs }, needs }
  }

  async memoryNeeds(): Promise<MemoryNeeds> {
    return { cpu: this.world.cpu }
  }

  async whyUnfit({ cpu }: MemoryNeeds): Promise<string | undefined> {
    return cpu === this.world.cpu ? undefined : `It needs the CPU ${cpu}.`
  }

  async importSnapshot(
    folder: string,
    { memory }: { memory: boolean },
    fetch: (targetOf: (note: PackNote) => Promise<PackTarget>) => Promise<boolean>,
  ): Promise<Snapshot | undefined> {
    const content: FakeContent = { memory: new Map(), files: new Map() }
    let snapshot: FakeSnapshot | undefined
    const isThere = await fetch(async (note) => {
      const needs = this.needsIn(note)
      const fits = memory && needs !== null && (await this.whyUnfit(needs)) === undefined
      snapshot = {
        spec: note.spec as SandboxSpec,
        content,
        memory: fits,
        consumedBy: undefined,
        imported: true,
      }
      return { open: (name) => (name === 'memory' && !fits ? undefined : readInto(content, name)) }
    })
    if (!isThere || !snapshot) return undefined
    this.world.snapshots.set(folder, snapshot)
    return this.findSnapshot(folder)
  }

  async stop(handle: DriverHandle, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    await orAborted(this.beforeStopped(handle), signal)
    const sandbox = this.#find(handle)
    if (sandbox) await this.#remove(sandbox)
  }

  endpoint(handle: DriverHandle, port: number): Endpoint {
    return this.#endpoint ?? { host: String(handle.data.address), port }
  }

  async stats(handle: DriverHandle, signal?: AbortSignal): Promise<SandboxStats> {
    signal?.throwIfAborted()
    const sandbox = this.#find(handle)
    if (!sandbox) throw new AppError('not_found', `Sandbox ${handle.data.sandboxID} is not there any more.`)
    const { memoryMB, diskMB } = sandbox.spec
    const used = { cpuTimeMs: 1, memoryUsedBytes: 1, memoryCacheBytes: 0, diskUsedBytes: 1 }
    return { ...used, memoryTotalBytes: memoryMB * 1024 * 1024, diskTotalBytes: diskMB * 1024 * 1024 }
  }

  async diskUse(): Promise<DiskUse[]> {
    return [...this.world.sandboxes.keys()].map((sandboxID) => ({
      sandboxID,
      allocatedBytes: 0,
      unwrittenBytes: 0,
      ...this.diskUses.get(sandboxID),
    }))
  }

  async memoryUse(): Promise<MemoryUse[]> {
    const usedBy = (sandboxID: string) => this.world.memoryUses.get(sandboxID) ?? 0
    return [...this.world.sandboxes.values()].map(({ spec: { sandboxID, memoryMB } }) => {
      return { sandboxID, usedBytes: usedBy(sandboxID), promisedBytes: memoryMB * 1024 * 1024 }
    })
  }

  async list(): Promise<FoundSandbox[]> {
    return [...this.world.sandboxes.values()].map(({ spec, handle }) => {
      const { sandboxID, runID } = spec
      if (this.world.unreadable.has(sandboxID)) return { sandboxID, unreadable: cannotBeRead(sandboxID) }
      return { sandboxID, runID, handle, roots: rootsOf(spec), disposable: spec.disposable === true }
    })
  }

  async close(): Promise<void> {
    this.world.crashListeners.delete(this.#reportExit)
  }

  /** A knob: ends the sandbox's processes. When this returns, every driver that watches them has reported the exit. */
  crash(sandboxID: string, how: Partial<SandboxExit> = {}): void {
    const sandbox = this.world.sandboxes.get(sandboxID)
    if (!sandbox?.running) return
    sandbox.running = false
    const { runID } = sandbox.spec
    const exit = { reason: 'crashed', detail: 'The fake sandbox was told to crash.', ...how } as const
    for (const listener of this.world.crashListeners) listener({ sandboxID, runID, ...exit })
  }

  readonly #reportExit = (exit: SandboxExit): void => {
    if (!this.#watched.delete(exit.runID)) return
    this.#exits.notify(exit)
  }

  /** A knob: reboots the machine. Its snapshots stay. */
  loseEverything(): void {
    this.world.sandboxes.clear()
  }

  async #remove(sandbox: FakeSandbox): Promise<void> {
    const { handle } = sandbox
    sandbox.running = false
    await this.beforeRemoved(handle)
    // Another stop may have removed the sandbox meanwhile, and a later start may have made it again.
    if (!this.#find(handle)) return
    const sandboxID = String(handle.data.sandboxID)
    this.#freedAddresses.notify({ sandboxID, handle })
    this.world.sandboxes.delete(sandboxID)
  }

  #alive(handle: DriverHandle): FakeSandbox {
    const sandbox = this.#find(handle)
    if (sandbox?.running) return sandbox
    throw new AppError('not_found', `Sandbox ${handle.data.sandboxID} is not there any more.`)
  }

  #openSnapshot({ folder, memory }: RestoreSpec): FakeSnapshot {
    this.#assertReadable(folder)
    const snapshot = this.world.snapshots.get(folder)
    if (!snapshot) throw new AppError('not_found', `There is no snapshot at ${folder}.`)
    const sandboxes = [...this.world.sandboxes.values()]
    const isInUse = sandboxes.some(({ spec }) => spec.runID === snapshot.consumedBy)
    if (isInUse || (snapshot.consumedBy && memory && snapshot.memory)) {
      throw new AppError('conflict', `A sandbox was already started from ${folder}.`)
    }
    const frozen = sandboxes.find(({ frozenSnapshot }) => frozenSnapshot === folder)
    if (frozen) throw new AppError('conflict', `Sandbox ${frozen.spec.sandboxID} still uses these files.`)
    return snapshot
  }

  #assertReadable(name: string): void {
    if (this.world.unreadable.has(name)) throw cannotBeRead(name)
  }

  #find(handle: DriverHandle): FakeSandbox | undefined {
    this.#assertReadable(String(handle.data.sandboxID))
    const sandbox = this.world.sandboxes.get(String(handle.data.sandboxID))
    return sandbox?.spec.runID === handle.data.runID ? sandbox : undefined
  }
}

const cannotBeRead = (name: string): AppError =>
  new AppError('unavailable', `The state of ${name} could not be read.`)
