/**
 * A driver without processes, for tests of the domain. It keeps the port's promises, and has knobs for what a
 * real machine does to a caller: slow starts, failed starts, sandboxes that vanish.
 */
import type {
  CanFreeze,
  CanLimitEgress,
  CanSnapshot,
  Driver,
  DriverCapabilities,
  DriverHandle,
  Endpoint,
  FoundSandbox,
  ProbeResult,
  RestoreSpec,
  SandboxSpec,
  SandboxStats,
  Snapshot,
  SnapshotOptions,
} from '../../core/driver.ts'
import type { AddressRules, GatePorts } from '../../core/egress.ts'
import { AppError } from '../../lib/app-error.ts'

export type FakeDriverOptions = {
  /** Where every sandbox's ports are said to be; a test may have a real server there. */
  endpoint?: Endpoint
  /** Held instead of a fresh one: two drivers with the same world are two processes on one machine. */
  world?: FakeWorld
  /** False: like plain containers, it keeps files only. */
  snapshotMemory?: boolean
}

/** What a sandbox holds, for tests to put there and find again. */
export type FakeContent = { memory: Map<string, string>; files: Map<string, string> }

export type FakeSandbox = FakeContent & {
  spec: SandboxSpec
  handle: DriverHandle
  running: boolean
  frozen: boolean
  /** What is kept of it as long as it stays frozen. */
  keptIn: string | undefined
}

type FakeSnapshot = { spec: SandboxSpec; content: FakeContent; memory: boolean; takenBy: string | undefined }

/** What outlives a driver: the machine with its sandboxes and what was saved of them. */
export type FakeWorld = {
  sandboxes: Map<string, FakeSandbox>
  snapshots: Map<string, FakeSnapshot>
  prepared: Set<string>
  nextAddress: number
}

export const newFakeWorld = (): FakeWorld => ({
  sandboxes: new Map(),
  snapshots: new Map(),
  prepared: new Set(),
  nextAddress: 1,
})

export class FakeDriver implements Driver, CanFreeze, CanLimitEgress, CanSnapshot {
  readonly name = 'fake'
  readonly capabilities: DriverCapabilities
  readonly world: FakeWorld
  probeResult: ProbeResult = { usable: true, detail: 'nothing is real' }
  /** Awaited in the middle of every start, when the sandbox is already listed. */
  beforeStarted: (spec: SandboxSpec) => Promise<void> = async () => {}
  /** Awaited before every stop takes effect. */
  beforeStopped: (handle: DriverHandle) => Promise<void> = async () => {}
  /** Awaited in the middle of every save, when the sandbox stands still and nothing is kept yet. */
  beforeSnapshot: (handle: DriverHandle, folder: string) => Promise<void> = async () => {}
  /** Awaited when the processes of a sandbox have ended, by a stop or by a snapshot that ends it, and it is still listed. */
  beforeRemoved: (handle: DriverHandle) => Promise<void> = async () => {}
  /** Awaited before new rules take effect. */
  beforeLimited: (rules: AddressRules) => Promise<void> = async () => {}
  readonly #endpoint: Endpoint | undefined

  constructor(options: FakeDriverOptions = {}) {
    this.#endpoint = options.endpoint
    const snapshotMemory = options.snapshotMemory ?? true
    this.capabilities = { freeze: true, snapshotFiles: true, snapshotMemory, limitEgress: true }
    this.world = options.world ?? newFakeWorld()
  }

  async probe(): Promise<ProbeResult> {
    return this.probeResult
  }

  async open(): Promise<void> {}

  async prepare(rootFolder: string): Promise<void> {
    this.world.prepared.add(rootFolder)
  }

  async start(spec: SandboxSpec, signal?: AbortSignal): Promise<DriverHandle> {
    signal?.throwIfAborted()
    if (!this.world.prepared.has(spec.rootFolder)) {
      throw new AppError('unavailable', `${spec.rootFolder} was never prepared`)
    }
    if (this.world.sandboxes.has(spec.sandboxID)) {
      throw new AppError('already_exists', `Sandbox ${spec.sandboxID} is already there; stop it first.`)
    }
    const saved = spec.fromSnapshot && this.#openSnapshot(spec.fromSnapshot)
    const address = `fake-${this.world.nextAddress++}`
    const data = { sandboxID: spec.sandboxID, runID: spec.runID, address }
    const handle = { driver: this.name, version: 1, data }
    const content = contentFor(spec.fromSnapshot, saved)
    const sandbox = { spec, handle, running: false, frozen: false, keptIn: undefined, ...content }
    if (saved && !spec.fromSnapshot?.keep) saved.takenBy = spec.runID
    this.world.sandboxes.set(spec.sandboxID, sandbox)
    try {
      await orAborted(this.beforeStarted(spec), signal)
    } catch (error) {
      this.world.sandboxes.delete(spec.sandboxID)
      if (saved?.takenBy === spec.runID) saved.takenBy = undefined
      throw error
    }
    sandbox.running = true
    return sandbox.handle
  }

  async recover(handle: DriverHandle): Promise<'running' | 'paused' | 'gone'> {
    const sandbox = this.#find(handle)
    if (!sandbox?.running) return 'gone'
    return sandbox.frozen ? 'paused' : 'running'
  }

  async freeze(handle: DriverHandle): Promise<void> {
    this.#alive(handle).frozen = true
  }

  async thaw(handle: DriverHandle): Promise<void> {
    const sandbox = this.#alive(handle)
    if (sandbox.keptIn) this.world.snapshots.delete(sandbox.keptIn)
    sandbox.keptIn = undefined
    sandbox.frozen = false
  }

  readonly gateAddress = '127.0.0.1'
  gatePorts: GatePorts | undefined

  async openGate(ports: GatePorts): Promise<void> {
    this.gatePorts = ports
  }

  async limitEgress(handle: DriverHandle, egress: AddressRules): Promise<void> {
    const sandbox = this.#alive(handle)
    await this.beforeLimited(egress)
    sandbox.spec = { ...sandbox.spec, egress }
  }

  async takeSnapshot(
    handle: DriverHandle,
    folder: string,
    { memory, afterwards }: SnapshotOptions,
    signal?: AbortSignal,
  ): Promise<Snapshot> {
    const sandbox = this.#alive(handle)
    if (memory && !this.capabilities.snapshotMemory) {
      throw new AppError('invalid_argument', 'This fake keeps no memory; save the files only.')
    }
    if (this.world.snapshots.has(folder)) {
      throw new AppError('already_exists', `${folder} holds a snapshot already.`)
    }
    if (sandbox.frozen)
      throw new AppError('conflict', 'The sandbox stands still; thaw it before it is saved.')
    signal?.throwIfAborted()
    sandbox.frozen = true
    try {
      await orAborted(this.beforeSnapshot(handle, folder), signal)
      this.#alive(handle)
    } catch (error) {
      sandbox.frozen = false
      throw error
    }
    this.world.snapshots.set(folder, {
      spec: sandbox.spec,
      content: copyOf(sandbox),
      memory,
      takenBy: undefined,
    })
    if (afterwards === 'go-on') sandbox.frozen = false
    else if (afterwards === 'stay-frozen') sandbox.keptIn = folder
    else await this.#remove(sandbox)
    return (await this.findSnapshot(folder))!
  }

  async findSnapshot(folder: string): Promise<Snapshot | undefined> {
    const saved = this.world.snapshots.get(folder)
    // Who took it ran on its files.
    return saved && { folder, memory: saved.memory && !saved.takenBy, bytes: 1, roots: rootsOf(saved.spec) }
  }

  async removeSnapshot(folder: string): Promise<void> {
    this.world.snapshots.delete(folder)
  }

  async stop(handle: DriverHandle): Promise<void> {
    await this.beforeStopped(handle)
    const sandbox = this.#find(handle)
    if (sandbox) await this.#remove(sandbox)
  }

  endpoint(handle: DriverHandle, port: number): Endpoint {
    return this.#endpoint ?? { host: String(handle.data.address), port }
  }

  async stats(handle: DriverHandle): Promise<SandboxStats> {
    const sandbox = this.#find(handle)
    if (!sandbox) throw new AppError('not_found', `Sandbox ${handle.data.sandboxID} is not there any more.`)
    const { memoryMB, diskMB } = sandbox.spec
    const used = { cpuTimeMs: 1, memoryUsedBytes: 1, memoryCacheBytes: 0, diskUsedBytes: 1 }
    return { ...used, memoryTotalBytes: memoryMB * 1024 * 1024, diskTotalBytes: diskMB * 1024 * 1024 }
  }

  async list(): Promise<FoundSandbox[]> {
    return [...this.world.sandboxes.values()].map(({ spec, handle }) => ({
      ...{ sandboxID: spec.sandboxID, runID: spec.runID },
      ...{ handle, roots: rootsOf(spec) },
    }))
  }

  async close(): Promise<void> {}

  /** A knob: the sandbox's processes die behind everybody's back. */
  crash(sandboxID: string): void {
    const sandbox = this.world.sandboxes.get(sandboxID)
    if (sandbox) sandbox.running = false
  }

  /** A knob: the machine was rebooted. What was saved is still there. */
  loseEverything(): void {
    this.world.sandboxes.clear()
  }

  async #remove(sandbox: FakeSandbox): Promise<void> {
    const { handle } = sandbox
    sandbox.running = false
    await this.beforeRemoved(handle)
    // Another stop may have removed it meanwhile, and the sandbox may have been started again.
    if (this.#find(handle)) this.world.sandboxes.delete(String(handle.data.sandboxID))
  }

  #alive(handle: DriverHandle): FakeSandbox {
    const sandbox = this.#find(handle)
    if (sandbox?.running) return sandbox
    throw new AppError('not_found', `Sandbox ${handle.data.sandboxID} is not there any more.`)
  }

  #openSnapshot({ folder, memory }: RestoreSpec): FakeSnapshot {
    const saved = this.world.snapshots.get(folder)
    if (!saved) throw new AppError('not_found', `There is no snapshot at ${folder}.`)
    const isHeld = [...this.world.sandboxes.values()].some(({ spec }) => spec.runID === saved.takenBy)
    if (isHeld || (saved.takenBy && memory && saved.memory)) {
      throw new AppError('conflict', `A sandbox was already started from ${folder}.`)
    }
    const holder = [...this.world.sandboxes.values()].find(({ keptIn }) => keptIn === folder)
    if (holder) throw new AppError('conflict', `Sandbox ${holder.spec.sandboxID} still holds these files.`)
    return saved
  }

  #find(handle: DriverHandle): FakeSandbox | undefined {
    const sandbox = this.world.sandboxes.get(String(handle.data.sandboxID))
    return sandbox?.spec.runID === handle.data.runID ? sandbox : undefined
  }
}

const rootsOf = ({ rootFolder, lowerFolders = [] }: SandboxSpec) => [rootFolder, ...lowerFolders]

const copyOf = ({ memory, files }: FakeContent): FakeContent => ({
  memory: new Map(memory),
  files: new Map(files),
})

function contentFor(from: RestoreSpec | undefined, saved: FakeSnapshot | undefined): FakeContent {
  if (!saved) return { memory: new Map(), files: new Map() }
  const { memory, files } = copyOf(saved.content)
  return { files, memory: from?.memory && saved.memory ? memory : new Map() }
}

function orAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    work.then(resolve, reject)
  })
}
