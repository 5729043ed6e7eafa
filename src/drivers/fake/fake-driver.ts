/**
 * A driver without processes, for tests of the domain. It keeps the port's promises, and has knobs for what a
 * real machine does to a caller: slow starts, failed starts, sandboxes that vanish.
 */
import type {
  Driver,
  DriverHandle,
  Endpoint,
  FoundSandbox,
  ProbeResult,
  SandboxSpec,
  SandboxStats,
} from '../../core/driver.ts'
import { AppError } from '../../lib/app-error.ts'

export type FakeDriverOptions = {
  /** Where every sandbox's ports are said to be; a test may have a real server there. */
  endpoint?: Endpoint
  /** Held instead of a fresh one: two drivers with the same world are two processes on one machine. */
  world?: FakeWorld
}

type FakeSandbox = { spec: SandboxSpec; handle: DriverHandle; running: boolean }

/** What outlives a driver: the machine with its sandboxes. */
export type FakeWorld = { sandboxes: Map<string, FakeSandbox>; prepared: Set<string>; nextAddress: number }

export const newFakeWorld = (): FakeWorld => ({ sandboxes: new Map(), prepared: new Set(), nextAddress: 1 })

export class FakeDriver implements Driver {
  readonly name = 'fake'
  readonly capabilities = { freeze: false, saveFiles: false, saveMemory: false, limitEgress: false }
  readonly world: FakeWorld
  probeResult: ProbeResult = { usable: true, detail: 'nothing is real' }
  /** Awaited in the middle of every start, when the sandbox is already listed. */
  beforeStarted: (spec: SandboxSpec) => Promise<void> = async () => {}
  /** Awaited before every stop takes effect. */
  beforeStopped: (handle: DriverHandle) => Promise<void> = async () => {}
  readonly #endpoint: Endpoint | undefined

  constructor(options: FakeDriverOptions = {}) {
    this.#endpoint = options.endpoint
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
    const address = `fake-${this.world.nextAddress++}`
    const data = { sandboxID: spec.sandboxID, runID: spec.runID, address }
    const sandbox = { spec, handle: { driver: this.name, version: 1, data }, running: false }
    this.world.sandboxes.set(spec.sandboxID, sandbox)
    try {
      await orAborted(this.beforeStarted(spec), signal)
    } catch (error) {
      this.world.sandboxes.delete(spec.sandboxID)
      throw error
    }
    sandbox.running = true
    return sandbox.handle
  }

  async recover(handle: DriverHandle): Promise<'running' | 'paused' | 'gone'> {
    return this.#find(handle)?.running ? 'running' : 'gone'
  }

  async stop(handle: DriverHandle): Promise<void> {
    await this.beforeStopped(handle)
    if (this.#find(handle)) this.world.sandboxes.delete(String(handle.data.sandboxID))
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
    return [...this.world.sandboxes.values()].map(({ spec: { sandboxID, runID }, handle }) => ({
      ...{ sandboxID, runID },
      handle,
    }))
  }

  async close(): Promise<void> {}

  /** A knob: the sandbox's processes die behind everybody's back. */
  crash(sandboxID: string): void {
    const sandbox = this.world.sandboxes.get(sandboxID)
    if (sandbox) sandbox.running = false
  }

  /** A knob: the machine was rebooted. */
  loseEverything(): void {
    this.world.sandboxes.clear()
  }

  #find(handle: DriverHandle): FakeSandbox | undefined {
    const sandbox = this.world.sandboxes.get(String(handle.data.sandboxID))
    return sandbox?.spec.runID === handle.data.runID ? sandbox : undefined
  }
}

function orAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    work.then(resolve, reject)
  })
}
