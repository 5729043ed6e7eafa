/** One start, step by step: the record first, so that whatever a crash leaves behind can be found. */
import { rename } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { SandboxSpec } from '../../../core/ports/driver.ts'
import { openRules } from '../../../core/ports/egress.ts'
import { allDone } from '../../../lib/all-done.ts'
import { AppError, shownText } from '../../../lib/app-error.ts'
import { delay } from '../../../lib/clock.ts'
import { runCommand } from '../../../lib/run-command.ts'
import {
  diskName,
  layerName,
  layerNumbers,
  overlayOptions,
  rootFolders,
  rootsName,
} from '../../host/disk/root-layers.ts'
import { checkMountPoints, mountShared, sharedFolders } from '../../host/disk/shared-disks.ts'
import { offerEmptyNetwork } from '../../host/network/empty-network.ts'
import { type ReservedGpus, recordVersion, type SandboxRecord } from '../../host/record/records.ts'
import { type DriverGpus, type OciContext, releaseShares } from '../context/context.ts'
import { lowerMemoryLater, raiseMemory } from '../context/memory-limit.ts'
import { restoresHostname } from '../runtime/builds.ts'
import { flavourOf } from '../runtime/flavours.ts'
import { renameArguments } from '../runtime/runtime-commands.ts'
import { startedPid } from '../runtime/runtime-files.ts'
import { untilGpusRestored } from '../snapshot/gpu-memory.ts'
import { planRestore, type RestorePlan } from '../snapshot/restore.ts'
import { type StartParts, writeBundle } from './bundle.ts'
import { dismantle } from './dismantle.ts'
import { runRuntime } from './run-runtime.ts'
import { shownFolders } from './shown-folders.ts'

const startLimitMs = 60_000

/** Returns the record of a running sandbox, or rejects with nothing left of the sandbox. */
export async function startSandbox(
  context: OciContext,
  spec: SandboxSpec,
  signal?: AbortSignal,
): Promise<SandboxRecord> {
  const { slots, agentFolders } = context
  signal?.throwIfAborted()
  if (!agentFolders.includes(spec.agent.folder))
    throw new AppError(
      'internal',
      `The agent in ${spec.agent.folder} was not named when the driver was made.`,
    )
  const plan = spec.fromSnapshot && (await planRestore(context, spec.fromSnapshot, spec.mounts))
  const slot = await slots.acquire(plan?.sizeFor(spec).diskMB ?? spec.diskMB)
  try {
    const record = await createRecord(context, spec, slot.number, plan)
    try {
      await launch(context, record, { agent: spec.agent, plan, users: slot.users }, signal)
    } catch (error) {
      await cleanUpAfter(error, async () => {
        await dismantle(context, record.sandboxID)
        await plan?.release()
      })
    }
    return record
  } finally {
    slots.startIsOver()
    await slot.users?.close()
  }
}

/** Throws the failure of a start after the cleanup; if that fails too, reports both. */
async function cleanUpAfter(error: unknown, cleanUp: () => Promise<void>): Promise<never> {
  try {
    await cleanUp()
  } catch (second) {
    throw new AppError(
      error instanceof AppError ? error.code : 'unavailable',
      `The sandbox could not be started: ${shownText(error)} Its remains could not be removed yet.`,
      { cause: new AggregateError([error, second]) },
    )
  }
  throw error
}

/** From here on the sandbox is listed. If it rejects, its slot and its CPUs are free again. */
async function createRecord(
  context: OciContext,
  spec: SandboxSpec,
  slot: number,
  plan: RestorePlan | undefined,
): Promise<SandboxRecord> {
  try {
    const record = newRecord(context, spec, slot, plan)
    await context.records.create(record)
    return record
  } catch (error) {
    return await cleanUpAfter(error, async () => {
      releaseShares(context, spec.runID)
      await context.slots.remove(slot)
    })
  }
}

function newRecord(
  { subnet, runtime, cpuShares, gpus }: OciContext,
  { sandboxID, runID, agent, egress, disposable, background, mounts, ...wanted }: SandboxSpec,
  slot: number,
  plan: RestorePlan | undefined,
): SandboxRecord {
  // An imported snapshot names folders of the machine that took it, where layers may have had other names.
  const { rootFolder, lowerFolders } = plan && !plan.snapshot.imported ? plan.snapshot.origin : wanted
  const { cpuCount, memoryMB, diskMB, gpuCount = 0 } = plan?.sizeFor(wanted) ?? wanted
  const restored = plan?.memory ? plan.snapshot.origin : undefined
  return {
    version: recordVersion,
    sandboxID,
    runID,
    runtime: runtime.flavour.runtime,
    bootID: restored?.sandboxID === sandboxID ? restored.bootID : runID,
    runtimeBinary: plan?.runtimeBinary ?? runtime.binary,
    platform: (restored ? restored.platform : runtime.platform) ?? null,
    agentFolder: restored?.agentFolder ?? agent.folder,
    layers: plan?.layers ?? 0,
    slot,
    address: subnet.sandbox(slot),
    egress,
    ...(mounts && mounts.length > 0 && { mounts }),
    ...(disposable && { disposable: true as const }),
    ...(background && { background: true as const }),
    rootFolder: resolve(rootFolder),
    ...(lowerFolders && { lowerFolders: lowerFolders.map((folder) => resolve(folder)) }),
    cpuCount,
    memoryMB,
    diskMB,
    ...(gpuCount > 0 && { gpus: reserveGpus(gpus, runID, gpuCount, restored?.gpus) }),
    cpus: cpuShares.reserve(runID, cpuCount),
  }
}

function reserveGpus(
  gpus: DriverGpus | undefined,
  runID: string,
  count: number,
  before: ReservedGpus | undefined,
): ReservedGpus {
  if (!gpus?.files) throw new AppError('unprocessable', 'Sandboxes cannot have a GPU on this machine.')
  const reserved = gpus.shares.reserve(runID, count, before?.ids)
  return {
    ids: reserved.map(({ id }) => id),
    model: reserved[0]!.model,
    driver: gpus.machine.driver,
    files: gpus.files,
    ...(gpus.borrowedInterface !== undefined && { borrowedInterface: gpus.borrowedInterface }),
  }
}

async function launch(
  context: OciContext,
  record: SandboxRecord,
  parts: StartParts,
  signal?: AbortSignal,
): Promise<void> {
  const { layout, firewall, exits } = context
  const { plan } = parts
  const folder = layout.sandbox(record.sandboxID)
  signal?.throwIfAborted()
  await allDone([
    plan?.bringDisks(context, record) ?? rename(layout.slotDisk(record.slot), join(folder, diskName)),
    writeBundle(context, folder, record, parts),
    offerEmptyNetwork(layout, record.slot, flavourOf(record).emptyNetworkName),
    firewall.replace(record.address, openRules, record.egress),
    firewall.disown(layout.link(record.slot)),
  ])
  signal?.throwIfAborted()
  // Once the files of a snapshot are consumed there is no way back: the sandbox runs, or the runtime reports why not.
  const abort = plan?.consumedMark ? undefined : signal
  await mountDisks(context, record, parts)
  const gpuBytes = plan?.memory ? plan.snapshot.gpuBytes : undefined
  await allDone([
    runRuntime(context, record, parts, abort),
    plan?.memory ? raiseMemoryOnceStarted(context, record, gpuBytes) : undefined,
  ])
  const pid = (await startedPid(folder))!
  if (gpuBytes !== undefined) await untilGpusRestored(context, record)
  await moveMounts(context, record, pid)
  await plan?.finish(context, record)
  abort?.throwIfAborted()
  if (gpuBytes === undefined) await raiseMemory(context, record)
  else lowerMemoryLater(context, record)
  await setHostname(context, record, parts)
  await exits.watch(record, pid)
}

/** Mounts the root in the slot's namespace, after its parts that the slot has not mounted yet. */
async function mountDisks(
  { layout, users: ownUsers, namespaces }: OciContext,
  record: SandboxRecord,
  { plan, users }: StartParts,
): Promise<void> {
  const folder = layout.sandbox(record.sandboxID)
  const namespace = layout.mountNamespace(record.slot)
  const layers = layerNumbers(record).map((number) => ({
    image: join(folder, layerName(number)),
    target: layout.layerMount(number),
  }))
  const disk = plan?.bringsDisk ? { image: join(folder, diskName), target: layout.diskMount } : undefined
  if (disk || layers.length > 0) await namespaces.do({ mountImages: { namespace, disk, layers } })
  await mountShared(layout, record)
  const owned = [...rootFolders(layout, folder, record), ...sharedFolders(layout, record)]
  if (users) await ownUsers?.cover(users, namespace, owned)
  const [roots, overlay] = [join(folder, rootsName), overlayOptions(record)]
  await namespaces.do({
    mountRoot: {
      namespace,
      roots,
      overlay,
      target: layout.rootMount,
      noSetuid: flavourOf(record).hasOwnKernel,
      shown: shownFolders(layout, record),
    },
  })
  // Restored memory already has its mounts.
  if (!plan?.memory) await checkMountPoints(namespaces, namespace, layout.rootMount, record.mounts)
}

/**
 * Only the agent runs in the sandbox so far, and it starts nothing before the hand-over, which comes after
 * this. A hook of the runtime could do it sooner, but takes ten times the CPU, because the runtime starts a
 * program for it. Until then the new place must not show the machine's own file.
 */
async function moveMounts({ namespaces }: OciContext, record: SandboxRecord, pid: number): Promise<void> {
  const moves = flavourOf(record).movedMounts
  if (moves.length > 0) await namespaces.do({ moveMounts: { pid, moves } })
}

/** Restored memory has the host name of its snapshot's sandbox, unless the runtime replaces it. */
async function setHostname(
  { layout }: OciContext,
  record: SandboxRecord,
  { agent, plan }: StartParts,
): Promise<void> {
  if (!plan?.memory || !agent.setHostname || plan.snapshot.origin.sandboxID === record.sandboxID) return
  if (await restoresHostname(record.runtimeBinary)) return
  const [program, ...args] = renameArguments(layout, record, agent.setHostname)
  await runCommand(program!, args, { timeoutMs: startLimitMs })
}

/** Restored memory may fill the whole limit, so the runtime needs its own memory before the restore is done. */
async function raiseMemoryOnceStarted(
  context: OciContext,
  record: SandboxRecord,
  gpuBytes: number | undefined,
): Promise<void> {
  const folder = context.layout.sandbox(record.sandboxID)
  // With growing pauses: many concurrent restores take seconds, and each check costs all of them.
  for (let waitedMs = 5; waitedMs < 2_000; waitedMs *= 1.25) {
    // Raised once more when the start is over, which then reports a failure.
    if (await startedPid(folder)) return raiseMemory(context, record, gpuBytes).catch(() => {})
    await delay(waitedMs / 4)
  }
}
