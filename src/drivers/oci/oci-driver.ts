/**
 * Sandboxes as OCI containers, under runc or gVisor's runsc. It knows folders, namespaces and cgroups; it must
 * not know teams, timeouts or what the agent does. All state is on disk and in the kernel: any process with the
 * same options can recover, list and stop what another one started.
 */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type {
  CanFreeze,
  CanLimitEgress,
  CanSnapshot,
  Driver,
  DriverCapabilities,
  DriverHandle,
  FoundSandbox,
  SandboxExit,
  SandboxSpec,
  SandboxStats,
  Snapshot,
  SnapshotOptions,
} from '../../core/driver.ts'
import type { AddressRules, GatePorts } from '../../core/egress.ts'
import { AppError } from '../../lib/app-error.ts'
import { systemClock } from '../../lib/clock.ts'
import { JoinedWork, KeyedLock } from '../../lib/keyed-lock.ts'
import { parseSubnet } from './addresses.ts'
import { describeBuild } from './builds.ts'
import { openCgroups } from './cgroups.ts'
import type { AgentCommand } from './container-spec.ts'
import type { OciContext } from './context.ts'
import { CpuShares, usableCpus } from './cpu-shares.ts'
import { Disks } from './disks.ts'
import { dismantle } from './dismantle.ts'
import { Firewall } from './firewall.ts'
import { endedBySnapshot, freeze, frozenNote, thaw } from './freeze.ts'
import { clearGround, layGround, leaveGround } from './ground.ts'
import { startSandbox } from './launch.ts'
import { assertPlainPath, createLayout } from './layout.ts'
import { choosePlatform } from './platform.ts'
import { prepareRoot } from './prepare-root.ts'
import { probeMachine } from './probe.ts'
import { assertSandboxID, Records, type RuntimeName, type SandboxRecord } from './records.ts'
import { rootsOf } from './root-layers.ts'
import { assertRules } from './ruleset.ts'
import { startedPid, untilRestored } from './runtime.ts'
import { takeSnapshot } from './save.ts'
import { SlotPool } from './slots.ts'
import { assertOurs, describeSnapshot, removeSnapshot } from './snapshot-store.ts'
import { measure } from './stats.ts'

export type OciDriverOptions = {
  runtime: RuntimeName
  runtimeBinary: string
  dataFolder: string
  /** Six of a-z and 0-9 that tell Warrens on one machine apart; `instanceOf(dataFolder)` gives them. */
  instance: string
  subnet: string
  agent: AgentCommand
  /** IPv4 addresses, written to /etc/resolv.conf and let through although they may be private. */
  dnsServers: readonly string[]
  /** Closed ranges that sandboxes may reach all the same, as far as their own rules allow it. */
  openedRanges?: readonly string[]
  poolSize?: number
  /** The disk size that free slots are made with until a sandbox asks for another. */
  poolDiskMB?: number
  uidBase?: number
  /** Processes and threads a sandbox may have; under gVisor a quarter of it per user. */
  pidsLimit?: number
  /** gVisor's platform; measured once where it is not given. */
  platform?: string
  log?: (message: string, cause?: unknown) => void
}

const handleVersion = 1
const firewallCheckMs = 10_000

export function createOciDriver(options: OciDriverOptions): OciDriver {
  return new OciDriver(options)
}

export class OciDriver implements Driver, CanFreeze, CanLimitEgress, CanSnapshot {
  readonly name: string
  readonly capabilities: DriverCapabilities
  readonly #context: OciContext
  readonly #log: (message: string, cause?: unknown) => void
  readonly #locks = new KeyedLock()
  /** By the folder they were saved to: sandboxes that have ended and are being taken apart. */
  readonly #leaving = new Map<string, Promise<void>>()
  #opened: Promise<void> | undefined
  #stopWatching: (() => void) | undefined

  constructor(options: OciDriverOptions) {
    this.name = `oci-${options.runtime}`
    const gvisor = options.runtime === 'runsc'
    this.capabilities = { freeze: true, snapshotFiles: true, snapshotMemory: gvisor, limitEgress: true }
    this.#log = options.log ?? (() => {})
    const layout = createLayout(options.dataFolder, options.instance)
    const subnet = parseSubnet(options.subnet)
    const uidBase = options.uidBase ?? 100_000
    const cgroups = openCgroups()
    const records = new Records(layout)
    const { dnsServers, openedRanges = [] } = options
    this.#context = {
      layout,
      subnet,
      uidBase,
      cgroups,
      runtime: { name: options.runtime, binary: options.runtimeBinary, platform: options.platform },
      agent: options.agent,
      dnsServers,
      pidsLimit: options.pidsLimit ?? 4096,
      openFilesLimit: hardOpenFilesLimit(),
      records,
      firewall: new Firewall({ layout, subnet, dnsServers, openedRanges }, () => records.all()),
      cpuShares: new CpuShares(cgroups.has('cpuset') ? usableCpus() : []),
      sysSkeletons: new JoinedWork(),
      slots: new SlotPool({
        layout,
        subnet,
        disks: new Disks(layout, uidBase),
        size: options.poolSize ?? 4,
        diskMB: options.poolDiskMB ?? 10_240,
        log: this.#log,
      }),
    }
  }

  probe() {
    return probeMachine(this.#context)
  }

  prepare(rootFolder: string): Promise<void> {
    return prepareRoot(rootFolder, this.#context.uidBase)
  }

  /** Makes this process the one that starts sandboxes here; `start` does it if nobody did before. */
  open(): Promise<void> {
    this.#opened ??= this.#open().catch((error) => {
      this.#opened = undefined
      throw error
    })
    return this.#opened
  }

  async #open(): Promise<void> {
    const { layout, firewall, subnet, cgroups, records, slots, cpuShares, runtime } = this.#context
    const present = await records.all()
    await layGround(layout, firewall, subnet, cgroups)
    for (const { sandboxID, cpus } of present) cpuShares.adopt(sandboxID, cpus)
    await slots.open(present.map((record) => record.slot))
    if (runtime.name === 'runsc') {
      runtime.platform ??= await choosePlatform(this.#context)
      // Takes a while; the first save need not wait for it.
      void describeBuild(runtime.binary).catch(() => {})
    }
    this.#watchFirewall()
  }

  /** Whoever flushes the machine's ruleset takes ours with it; it must not stay away. */
  #watchFirewall(): void {
    const { firewall } = this.#context
    this.#stopWatching = systemClock.after(firewallCheckMs, async () => {
      try {
        if (!(await firewall.isWhole())) {
          this.#log('The firewall table of the sandboxes was not whole and is loaded again')
          await firewall.load()
        }
      } catch (error) {
        this.#log('The firewall of the sandboxes could not be checked', error)
      }
      if (this.#stopWatching) this.#watchFirewall()
    })
  }

  async start(spec: SandboxSpec, signal?: AbortSignal): Promise<DriverHandle> {
    assertSandboxID(spec.sandboxID)
    assertRules(spec.egress)
    for (const folder of [spec.rootFolder, ...(spec.lowerFolders ?? [])]) assertPlainPath(resolve(folder))
    signal?.throwIfAborted()
    await this.open()
    if (spec.fromSnapshot) await this.#leaving.get(resolve(spec.fromSnapshot.folder))
    const record = await this.#locks.run(spec.sandboxID, () => startSandbox(this.#context, spec, signal))
    return handleOf(record)
  }

  async recover(handle: DriverHandle, signal?: AbortSignal): Promise<'running' | 'paused' | 'gone'> {
    signal?.throwIfAborted()
    const record = await this.#find(handle)
    if (record) await untilRestored(this.#context.layout.sandbox(record.sandboxID), signal)
    // Before the look at its processes: the note goes after them.
    const note = record && (await frozenNote(this.#context, record.sandboxID))
    if (!record || !(await this.#isAlive(record))) return 'gone'
    if (!note) return 'running'
    return (await endedBySnapshot(record, note)) ? 'gone' : 'paused'
  }

  async freeze(handle: DriverHandle): Promise<void> {
    await this.#withAlive(handle, async (record) => {
      if (await frozenNote(this.#context, record.sandboxID)) return
      await freeze(this.#context, record, { byRuntime: false, save: null })
    })
  }

  async thaw(handle: DriverHandle, signal?: AbortSignal): Promise<void> {
    await this.#withAlive(handle, (record) => thaw(this.#context, record, signal), signal)
  }

  get gateAddress(): string {
    return this.#context.subnet.gate
  }

  openGate(ports: GatePorts): Promise<void> {
    return this.#context.firewall.openGate(ports)
  }

  async limitEgress(handle: DriverHandle, egress: AddressRules): Promise<void> {
    const { records, firewall } = this.#context
    assertRules(egress)
    await this.#withAlive(handle, async (record) => {
      if (isDeepStrictEqual(record.egress, egress)) return
      await records.replace({ ...record, egress })
      await firewall.replace(record.address, record.egress, egress)
    })
  }

  async takeSnapshot(
    handle: DriverHandle,
    folder: string,
    options: SnapshotOptions,
    signal?: AbortSignal,
  ): Promise<Snapshot> {
    const path = assertOurs(this.#context.layout, folder)
    if (options.memory && !this.capabilities.snapshotMemory) {
      throw new AppError('invalid_argument', `${this.name} keeps no memory; save the files only.`)
    }
    if (options.afterwards !== 'end') {
      return this.#withAlive(handle, (record) => takeSnapshot(this.#context, record, path, options, signal))
    }
    return this.#snapshotAndEnd(handle, path, options, signal)
  }

  /** Until the sandbox is taken apart waits only the next verb on it or on what was saved, `list` and `close`. */
  #snapshotAndEnd(
    handle: DriverHandle,
    folder: string,
    options: SnapshotOptions,
    signal?: AbortSignal,
  ): Promise<Snapshot> {
    const saved = Promise.withResolvers<Snapshot>()
    const left = this.#withAlive(handle, async (record) => {
      const state = await takeSnapshot(this.#context, record, folder, options, signal)
      this.#leaving.set(folder, left)
      saved.resolve(state)
      await dismantle(this.#context, record.sandboxID)
        .catch((error) => this.#log(`Sandbox ${record.sandboxID} was saved but is not all gone`, error))
        .finally(() => this.#leaving.delete(folder))
    })
    left.catch(saved.reject)
    return saved.promise
  }

  findSnapshot(folder: string): Promise<Snapshot | undefined> {
    return describeSnapshot(assertOurs(this.#context.layout, folder))
  }

  removeSnapshot(folder: string): Promise<void> {
    return removeSnapshot(assertOurs(this.#context.layout, folder))
  }

  async stop(handle: DriverHandle, signal?: AbortSignal): Promise<void> {
    const { sandboxID } = handleData(handle)
    await this.#locked(sandboxID, signal, async () => {
      const record = await this.#context.records.read(sandboxID)
      // A later run of the same sandbox is not ours to end.
      if (record && record.runID !== handleData(handle).runID) return
      await dismantle(this.#context, sandboxID, signal)
    })
  }

  onExit(_listener: (exit: SandboxExit) => void): () => void {
    return () => {}
  }

  endpoint(handle: DriverHandle, port: number) {
    return { host: handleData(handle).address, port }
  }

  async stats(handle: DriverHandle, signal?: AbortSignal): Promise<SandboxStats> {
    signal?.throwIfAborted()
    const record = await this.#find(handle)
    if (!record)
      throw new AppError('not_found', `Sandbox ${handleData(handle).sandboxID} is not there any more.`)
    return measure(this.#context, record)
  }

  async list(): Promise<FoundSandbox[]> {
    const { records } = this.#context
    await Promise.all(this.#leaving.values())
    const names = await records.names()
    return Promise.all(
      names.map(async (sandboxID) => {
        const record = await records.read(sandboxID)
        if (record)
          return { sandboxID, runID: record.runID, handle: handleOf(record), roots: rootsOf(record) }
        const data = { sandboxID, runID: '', address: '' }
        return {
          sandboxID,
          runID: '',
          handle: { driver: this.name, version: handleVersion, data },
          roots: [],
        }
      }),
    )
  }

  async close(): Promise<void> {
    const { layout, firewall, subnet, cgroups, records, slots } = this.#context
    if (!this.#opened) return
    await this.#opened.catch(() => {})
    this.#stopWatching?.()
    this.#stopWatching = undefined
    await Promise.all(this.#leaving.values())
    await slots.close((await records.all()).map((record) => record.slot))
    if ((await records.names()).length === 0) await clearGround(layout, firewall, subnet, cgroups)
    else await leaveGround(layout)
    this.#opened = undefined
  }

  async #isAlive({ sandboxID }: SandboxRecord): Promise<boolean> {
    const { layout, cgroups } = this.#context
    const pid = await startedPid(layout.sandbox(sandboxID))
    return pid !== undefined && (await cgroups.pids(layout.cgroup(sandboxID))).includes(pid)
  }

  /** One verb at a time for each sandbox. Whoever waits for another verb stops waiting when the signal aborts. */
  #locked<T>(sandboxID: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const abort = () => reject(signal?.reason)
      if (signal?.aborted) return abort()
      signal?.addEventListener('abort', abort, { once: true })
      const start = () => {
        // From here on the work itself looks at the signal.
        signal?.removeEventListener('abort', abort)
        signal?.throwIfAborted()
        return work()
      }
      this.#locks.run(sandboxID, async () => start()).then(resolve, reject)
    })
  }

  #withAlive<T>(
    handle: DriverHandle,
    work: (record: SandboxRecord) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    const { sandboxID } = handleData(handle)
    return this.#locked(sandboxID, signal, async () => {
      const record = await this.#find(handle)
      if (record && (await this.#isAlive(record))) return work(record)
      throw new AppError('not_found', `Sandbox ${sandboxID} is not there any more.`)
    })
  }

  async #find(handle: DriverHandle): Promise<SandboxRecord | undefined> {
    const { sandboxID, runID } = handleData(handle)
    const record = await this.#context.records.read(sandboxID)
    return record?.runID === runID ? record : undefined
  }
}

function handleOf({ runtime, sandboxID, runID, address }: SandboxRecord): DriverHandle {
  return { driver: `oci-${runtime}`, version: handleVersion, data: { sandboxID, runID, address } }
}

function handleData(handle: DriverHandle): { sandboxID: string; runID: string; address: string } {
  const { sandboxID, runID, address } = handle.data
  if (!handle.driver.startsWith('oci-') || handle.version !== handleVersion) {
    throw new AppError(
      'internal',
      `A handle of ${handle.driver} version ${handle.version} cannot be read here.`,
    )
  }
  assertSandboxID(String(sandboxID))
  return { sandboxID: String(sandboxID), runID: String(runID), address: String(address) }
}

function hardOpenFilesLimit(): number {
  const hard = /^Max open files\s+\S+\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
  return Math.min(Number(hard) || 1_048_576, 1_048_576)
}
