/**
 * Sandboxes as OCI containers, isolated by gVisor or as plain containers. The driver knows folders, namespaces and
 * cgroups; it must not know teams, timeouts or what the agent does. All state is on disk and in the kernel: any
 * process with the same options can recover, list and stop what another one started.
 */
import { resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { OwnersOf } from '../../core/ports/connection-shares.ts'
import type {
  CanFillMemory,
  Driver,
  DriverCapabilities,
  DriverHandle,
  FoundSandbox,
  ImportOptions,
  MemoryNeeds,
  PortableSnapshot,
  SandboxExit,
  SandboxSpec,
  SandboxStats,
  Snapshot,
  SnapshotOptions,
} from '../../core/ports/driver.ts'
import type { AddressRules, GatePorts } from '../../core/ports/egress.ts'
import type { GpuCapacity } from '../../core/ports/gpu.ts'
import { AppError, errorText } from '../../lib/app-error.ts'
import { prepareRoot } from '../host/disk/prepare-root.ts'
import { rootsOf } from '../host/disk/root-layers.ts'
import { makeEmptyNetwork, removeEmptyNetwork } from '../host/network/empty-network.ts'
import { assertRules } from '../host/network/ruleset.ts'
import { assertPlainPath } from '../host/record/layout.ts'
import { assertSandboxID } from '../host/record/records.ts'
import { capabilitiesOf, type OciPowers } from './capabilities.ts'
import { measureConnections, shareConnections } from './connections.ts'
import { type OciContext, releaseShares } from './context/context.ts'
import { createContext } from './context/create-context.ts'
import type { OciDriverOptions } from './context/driver-options.ts'
import { driverName, handleOf, readHandle, unfinishedHandle, watchFreed } from './handles.ts'
import { dismantle, endForLater } from './lifecycle/dismantle.ts'
import { startSandbox } from './lifecycle/launch.ts'
import { SandboxRemains } from './lifecycle/remains.ts'
import { LiveSandboxes, notThere } from './live-sandboxes.ts'
import { limitTotalMemory, releaseOwnership, setUpMachine, tearDownMachine } from './machine/machine-setup.ts'
import { openGpus } from './machine/open-gpus.ts'
import { choosePlatform } from './machine/platform.ts'
import { probeMachine } from './machine/probe.ts'
import { mountAgent } from './machine/shown-mounts.ts'
import { describeBuild, restoresHostname } from './runtime/builds.ts'
import { flavourOf } from './runtime/flavours.ts'
import { untilRestored } from './runtime/runtime-files.ts'
import { fillMemory, untilMemoryRestored } from './snapshot/fill-memory.ts'
import { freezeUntilQuiet, readFrozenNote, thaw, wasEndedBySnapshot } from './snapshot/freeze.ts'
import { finishGpuRestore } from './snapshot/gpu-memory.ts'
import {
  exportSnapshot,
  type FetchFiles,
  importSnapshot,
  memoryNeeds,
  needsIn,
  whyUnfit,
} from './snapshot/portable-snapshot.ts'
import { assertOurs, describeSnapshot, removeSnapshot } from './snapshot/snapshot-folder.ts'
import { takeSnapshot } from './snapshot/take-snapshot.ts'
import { measure, measureDisks, measureMemory } from './stats.ts'
import { startUpkeep } from './upkeep.ts'

/** Maximum number of stopped sandboxes that wait to be dismantled, and the maximum share of addresses they hold. */
const maxRemains = 128
const remainsShare = 1 / 8

export function createOciDriver(options: OciDriverOptions): OciDriver {
  return new OciDriver(options)
}

export class OciDriver implements Driver, OciPowers {
  readonly name: string
  readonly capabilities: DriverCapabilities
  readonly #context: OciContext
  readonly #log: (message: string, cause?: unknown) => void
  readonly #live: LiveSandboxes
  /** Sandboxes that ended with a snapshot and are being dismantled, by the folder of that snapshot. */
  readonly #dismantling = new Map<string, Promise<void>>()
  readonly #remains: SandboxRemains
  #opened: Promise<void> | undefined
  #stopUpkeep: (() => void) | undefined

  constructor(options: OciDriverOptions) {
    this.#context = createContext(options)
    this.#live = new LiveSandboxes(this.#context)
    this.#log = options.log ?? (() => {})
    this.#remains = new SandboxRemains({
      removeParts: (sandboxID) => this.#removeParts(sandboxID),
      max: Math.min(maxRemains, this.#context.subnet.capacity * remainsShare),
    })
    this.name = driverName(this.#context.runtime.flavour)
    this.capabilities = capabilitiesOf(this.#context)
  }

  get gpus(): GpuCapacity | undefined {
    const { gpus } = this.#context
    if (!gpus) return undefined
    const { total, free, largest } = gpus.shares
    return { model: gpus.machine.gpus[0]!.model, total, free, mostPerSandbox: largest }
  }

  probe() {
    return probeMachine(this.#context)
  }

  prepare(folder: string): Promise<void> {
    return prepareRoot(folder, this.#context.uidBase)
  }

  /** Makes this process the one that starts sandboxes in this data folder. `start` calls it if nobody has. */
  open(): Promise<void> {
    this.#opened ??= this.#open().catch((error) => {
      this.#opened = undefined
      throw error
    })
    return this.#opened
  }

  async #open(): Promise<void> {
    const { layout, firewall, subnet, cgroups, records, slots, cpuShares, runtime, users } = this.#context
    const { agentFolders } = this.#context
    const present = await records.all()
    const probed = users?.probe()
    await setUpMachine(layout, firewall, subnet, cgroups)
    await limitTotalMemory(this.#context, this.#log)
    if (!runtime.flavour.showsOwnMachine) for (const each of agentFolders) await mountAgent(layout, each)
    for (const { runID, cpus } of present) cpuShares.adopt(runID, cpus)
    await openGpus(this.#context, present)
    if (runtime.flavour.emptyNetworkName) await makeEmptyNetwork(layout)
    const problem = await probed
    if (problem)
      this.#log(`Sandboxes share one range of users, because this machine cannot map owners: ${problem}`)
    await slots.open(present.map((record) => record.slot))
    for (const { sandboxID, ended } of present) if (ended) void this.#remains.add(sandboxID)
    if (runtime.flavour.hasPlatforms) runtime.platform ??= await choosePlatform(this.#context)
    // Reading the build takes a while, so it begins here. The first snapshot with memory reports a failure.
    if (runtime.flavour.keepsMemory) {
      for (const ask of [describeBuild, restoresHostname]) void ask(runtime.binary).catch(() => {})
    }
    this.#stopUpkeep = startUpkeep(this.#context, this.#log)
  }

  async start(spec: SandboxSpec, signal?: AbortSignal): Promise<DriverHandle> {
    assertSandboxID(spec.sandboxID)
    assertRules(spec.egress)
    for (const folder of [spec.rootFolder, ...(spec.lowerFolders ?? [])]) assertPlainPath(resolve(folder))
    signal?.throwIfAborted()
    await this.open()
    if (spec.fromSnapshot) await this.#dismantling.get(resolve(spec.fromSnapshot.folder))
    await this.#remains.finish(spec.sandboxID)
    this.#remains.noteStart()
    const record = await this.#live.locked(spec.sandboxID, undefined, () =>
      startSandbox(this.#context, spec, signal),
    )
    this.#remains.noteStart()
    return handleOf(record)
  }

  async adopt(handle: DriverHandle): Promise<void> {
    const { records, cgroups, layout } = this.#context
    this.#remains.noteStart()
    await this.#live.withAlive(handle, async ({ disposable, background, ...record }) => {
      if (background) await cgroups.restoreShares(layout.cgroup(record.sandboxID))
      if (disposable || background) await records.replace(record)
    })
  }

  async recover(handle: DriverHandle, signal?: AbortSignal): Promise<'running' | 'frozen' | 'gone'> {
    signal?.throwIfAborted()
    const record = await this.#live.find(handle)
    if (!record) return 'gone'
    const finish = () => finishGpuRestore(this.#context, record)
    await untilRestored(this.#context.layout.sandbox(record.sandboxID), finish, signal)
    // The note is read before the processes are checked, because it is removed after they have ended. An unreadable
    // note matters only if the processes live.
    const [note] = await Promise.allSettled([readFrozenNote(this.#context, record.sandboxID)])
    const pid = await this.#live.livePid(record)
    if (pid === undefined) return 'gone'
    if (note.status === 'rejected') throw note.reason
    if (note.value && (await wasEndedBySnapshot(record, note.value))) return 'gone'
    await this.#context.exits.watch(record, pid)
    return note.value ? 'frozen' : 'running'
  }

  onExit(listener: (exit: SandboxExit) => void): () => void {
    return this.#context.exits.onExit(listener)
  }

  async freeze(
    handle: DriverHandle,
    signal?: AbortSignal,
    { whileBusy = false }: { whileBusy?: boolean } = {},
  ): Promise<void> {
    // A busy gVisor that the host's kernel freezes repeatedly loses processes after a thaw, so gVisor freezes itself.
    await this.#live.withAlive(
      handle,
      (record) => freezeUntilQuiet(this.#context, record, whileBusy && flavourOf(record).keepsMemory, signal),
      signal,
    )
  }

  async thaw(handle: DriverHandle, signal?: AbortSignal): Promise<void> {
    await this.#live.withAlive(handle, (record) => thaw(this.#context, record, signal), signal)
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
    await this.#live.withAlive(handle, async (record) => {
      // The firewall is called even if the record does not change: only the firewall knows what the kernel has.
      if (!isDeepStrictEqual(record.egress, egress)) await records.replace({ ...record, egress })
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
      throw new AppError(
        'invalid_argument',
        `${this.name} cannot take a snapshot of memory; take one of the files only.`,
      )
    }
    if (options.afterwards !== 'end') {
      return this.#live.withAlive(handle, (record) =>
        takeSnapshot(this.#context, record, path, options, signal),
      )
    }
    return this.#snapshotAndEnd(handle, path, options, signal)
  }

  /**
   * Returns before the sandbox is dismantled. `list`, `close`, and the next call for this sandbox or this snapshot wait
   * for the end of that.
   */
  #snapshotAndEnd(
    handle: DriverHandle,
    folder: string,
    options: SnapshotOptions,
    signal?: AbortSignal,
  ): Promise<Snapshot> {
    const snapshotTaken = Promise.withResolvers<Snapshot>()
    const dismantled = this.#live.withAlive(handle, async (record) => {
      const snapshot = await takeSnapshot(this.#context, record, folder, options, signal)
      this.#dismantling.set(folder, dismantled)
      snapshotTaken.resolve(snapshot)
      await dismantle(this.#context, record.sandboxID)
        .catch((error) => this.#log(`Sandbox ${record.sandboxID} ended but is not all gone`, error))
        .finally(() => this.#dismantling.delete(folder))
    })
    dismantled.catch(snapshotTaken.reject)
    return snapshotTaken.promise
  }

  findSnapshot(folder: string): Promise<Snapshot | undefined> {
    return describeSnapshot(assertOurs(this.#context.layout, folder))
  }

  async exportSnapshot(folder: string): Promise<PortableSnapshot | undefined> {
    const path = assertOurs(this.#context.layout, folder)
    await this.#dismantling.get(path)
    return exportSnapshot(this.#context, path)
  }

  memoryNeeds(handle: DriverHandle): Promise<MemoryNeeds> {
    return this.#live.withAlive(handle, (record) => memoryNeeds(this.#context, record))
  }

  readonly onAddressFree: Driver['onAddressFree'] = (listener) =>
    watchFreed(this.#context.freedAddresses, listener)
  readonly needsIn = needsIn
  readonly whyUnfit = (needs: MemoryNeeds): Promise<string | undefined> => whyUnfit(this.#context, needs)

  importSnapshot(folder: string, options: ImportOptions, fetch: FetchFiles): Promise<Snapshot | undefined> {
    return importSnapshot(this.#context, assertOurs(this.#context.layout, folder), options, fetch)
  }

  fillMemory: CanFillMemory['fillMemory'] = (folder, partsOf, load) =>
    fillMemory(assertOurs(this.#context.layout, folder), partsOf, load)

  async awaitMemory(handle: DriverHandle, signal: AbortSignal): Promise<void> {
    const record = await this.#live.find(handle)
    if (!record) throw notThere(handle)
    await untilMemoryRestored(this.#context, record, signal)
  }

  removeSnapshot(folder: string): Promise<void> {
    return removeSnapshot(assertOurs(this.#context.layout, folder))
  }

  async stop(handle: DriverHandle, signal?: AbortSignal): Promise<void> {
    const { sandboxID, runID } = readHandle(handle)
    await this.#remains.finish(sandboxID)
    const { layout, cgroups } = this.#context
    // Programs of the sandbox move its GPU memory. A snapshot waits for them, and so would this.
    if ((await this.#live.find(handle))?.gpus) await cgroups.kill(layout.cgroup(sandboxID), signal)
    const remains = await this.#live.locked(sandboxID, signal, async () => {
      const record = await this.#context.records.read(sandboxID)
      // The handle is of an earlier run: the sandbox's later run must go on.
      if (record && record.runID !== runID) return false
      // Another process may have stopped the sandbox; this one still counts its CPUs and GPUs.
      if (!record) releaseShares(this.#context, runID)
      if (this.#opened && record && (await endForLater(this.#context, record, signal))) return true
      await dismantle(this.#context, sandboxID, signal)
      return false
    })
    if (remains) await this.#remains.add(sandboxID)
  }

  #removeParts(sandboxID: string): Promise<void> {
    return this.#live
      .locked(sandboxID, undefined, () => dismantle(this.#context, sandboxID))
      .catch((error) => this.#log(`Sandbox ${sandboxID} ended but is not all gone`, error))
  }

  endpoint(handle: DriverHandle, port: number) {
    return { host: readHandle(handle).address, port }
  }

  async stats(handle: DriverHandle, signal?: AbortSignal): Promise<SandboxStats> {
    signal?.throwIfAborted()
    const record = await this.#live.find(handle)
    if (!record) throw notThere(handle)
    await this.#context.exits.noteShortages(record.sandboxID)
    return measure(this.#context, record)
  }

  readonly diskUse = async () => measureDisks(this.#context, await this.#context.records.names())
  readonly memoryUse = async () => measureMemory(this.#context, await this.#context.records.names())
  readonly connectionUse = () => measureConnections(this.#context)
  readonly shareConnections = (ownersOf: OwnersOf) => shareConnections(this.#context, ownersOf, this.#log)

  async list(): Promise<FoundSandbox[]> {
    await Promise.all(this.#dismantling.values())
    const names = (await this.#context.records.names()).filter((name) => !this.#remains.has(name))
    return Promise.all(names.map((sandboxID) => this.#describe(sandboxID)))
  }

  async #describe(sandboxID: string): Promise<FoundSandbox> {
    try {
      const record = await this.#context.records.read(sandboxID)
      if (!record) {
        const handle = unfinishedHandle(this.name, sandboxID)
        return { sandboxID, runID: '', handle, roots: [], disposable: true }
      }
      const { runID, disposable = false, ended = false } = record
      const handle = handleOf(record)
      return { sandboxID, runID, handle, roots: rootsOf(record), disposable: disposable || ended }
    } catch (error) {
      return { sandboxID, unreadable: error instanceof Error ? error : new Error(errorText(error)) }
    }
  }

  async close(): Promise<void> {
    const { layout, firewall, subnet, cgroups, lowering, records, slots, exits, namespaces } = this.#context
    exits.close()
    for (const stop of lowering.values()) stop.abort()
    if (!this.#opened) return
    await this.#opened.catch(() => {})
    this.#stopUpkeep?.()
    this.#stopUpkeep = undefined
    await Promise.all([...this.#dismantling.values(), this.#remains.finishAll()])
    const present = await records.all().catch((error) => {
      this.#log('Free slots are left behind, because the records of the sandboxes cannot be read', error)
    })
    await slots.close(present?.map((record) => record.slot))
    await namespaces.close()
    if (present && (await records.names()).length === 0) {
      await tearDownMachine(layout, firewall, subnet, cgroups)
      await removeEmptyNetwork(layout)
    } else await releaseOwnership(layout)
    this.#opened = undefined
  }
}
