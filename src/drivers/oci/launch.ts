/** One start, step by step: the record first, so that whatever a crash leaves behind can be found. */
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { SandboxSpec } from '../../core/driver.ts'
import { openRules } from '../../core/egress.ts'
import { AppError, errorText } from '../../lib/app-error.ts'
import { delay } from '../../lib/clock.ts'
import { runCommand } from '../../lib/run-command.ts'
import { containerSpec, restoredSpec } from './container-spec.ts'
import type { OciContext } from './context.ts'
import { diskMountOptions } from './disks.ts'
import { dismantle } from './dismantle.ts'
import type { SandboxRecord } from './records.ts'
import {
  diskName,
  layerName,
  layerNumbers,
  linkRoots,
  overlayOptions,
  rootsName,
  writeSeed,
} from './root-layers.ts'
import { renameArguments, runtimeComplaint, startArguments, startedPid } from './runtime.ts'
import { bootIDName, makeSysSkeleton, writeProcFiles } from './shown-machine.ts'
import { configName } from './snapshot-store.ts'
import { openSource, type Source } from './source.ts'

const startLimitMs = 60_000
const toolPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/**
 * Runs in the slot's mount namespace. What it is given: where the disk is mounted, an image to put there instead of
 * the slot's own (or nothing), its mount options, where the root goes, where the folders lie that the overlay's
 * options name, these, a file that says that the sandbox ran (or nothing), an image and a mount point for each layer, `--`, and the runtime's command line. An
 * overlay will not take a disk again as long as `work` tells of the last time. The runtime gets no pipe of ours:
 * the sandbox would hold it open.
 */
const mountAndRun = `set -e
disk=$1 own=$2 options=$3 root=$4 roots=$5 overlay=$6 ran=$7
shift 7
if [ "$own" ]; then
  umount "$disk"
  mount -o "$options" "$own" "$disk"
  rm -rf "$disk/work/work"
fi
while [ "$1" != -- ]; do
  mount -o loop,ro,noatime,nodev "$1" "$2"
  shift 2
done
shift
cd "$roots"
mount -t overlay -o "$overlay" overlay "$root"
cd /
exec </dev/null >/dev/null 2>&1
[ "$ran" ] || exec "$@"
: > "$ran"
"$@" || { rm "$ran"; exit 1; }`

/** What gVisor itself may take on top of the sandbox's memory. */
const sentryMemoryMB = (memoryMB: number): number => Math.max(128, Math.ceil(memoryMB / 4))

/** Gives back the record of a sandbox that runs, or rejects with nothing left of it. */
export async function startSandbox(
  context: OciContext,
  spec: SandboxSpec,
  signal?: AbortSignal,
): Promise<SandboxRecord> {
  const { slots, records } = context
  signal?.throwIfAborted()
  const source = spec.fromSnapshot && (await openSource(context, spec.fromSnapshot))
  const slot = await slots.take(source?.snapshot.origin.diskMB ?? spec.diskMB)
  try {
    const record = newRecord(context, spec, slot.number, source)
    await records.create(record).catch(async (error) => {
      await slots.remove(slot.number)
      throw error
    })
    await launch(context, record, source, signal).catch(async (error) => {
      await dismantle(context, record.sandboxID)
      await source?.giveBack()
      throw error
    })
    return record
  } finally {
    slots.startIsOver()
  }
}

function newRecord(
  { subnet, runtime, agent, cpuShares }: OciContext,
  { sandboxID, runID, egress, ...wanted }: SandboxSpec,
  slot: number,
  source: Source | undefined,
): SandboxRecord {
  const { rootFolder, lowerFolders, cpuCount, memoryMB, diskMB } = source?.snapshot.origin ?? wanted
  const restored = source?.memory ? source.snapshot.origin : undefined
  return {
    ...{ version: 1, sandboxID, runID, runtime: runtime.name },
    bootID: restored?.sandboxID === sandboxID ? restored.bootID : runID,
    runtimeBinary: source?.runtimeBinary ?? runtime.binary,
    platform: (restored ? restored.platform : runtime.platform) ?? null,
    agentFolder: restored?.agentFolder ?? agent.folder,
    layers: source?.layers ?? 0,
    ...{ slot, address: subnet.sandbox(slot), egress },
    rootFolder: resolve(rootFolder),
    ...(lowerFolders && { lowerFolders: lowerFolders.map((folder) => resolve(folder)) }),
    ...{ cpuCount, memoryMB, diskMB, cpus: cpuShares.take(sandboxID, cpuCount) },
  }
}

async function launch(
  context: OciContext,
  record: SandboxRecord,
  source: Source | undefined,
  signal?: AbortSignal,
): Promise<void> {
  const { layout, firewall } = context
  const folder = layout.sandbox(record.sandboxID)
  signal?.throwIfAborted()
  await Promise.all([
    source ? source.fetchDisks(record) : rename(layout.slotDisk(record.slot), join(folder, diskName)),
    writeBundle(context, folder, record, source),
    firewall.replace(record.address, openRules, record.egress),
  ])
  signal?.throwIfAborted()
  const own = source?.ownDisk ? join(folder, diskName) : ''
  const layers = layerNumbers(record).flatMap((number) => [
    join(folder, layerName(number)),
    layout.layerMount(number),
  ])
  const command = [
    ...[`--mount=${layout.mountNamespace(record.slot)}`, 'sh', '-c', mountAndRun, 'sh'],
    ...[layout.diskMount, own, diskMountOptions, layout.rootMount],
    ...[join(folder, rootsName), overlayOptions(record)],
    ...[source?.usedMark ?? '', ...layers, '--', ...startArguments(layout, record, source?.memory)],
  ]
  // Once the files of a snapshot are used up there is no way back: it runs, or the runtime says why not.
  const abort = source?.usedMark ? undefined : signal
  await Promise.all([
    enterAndRun(record, folder, command, abort),
    source?.memory ? giveRoomWhenStarted(context, record) : undefined,
  ])
  await source?.started(record)
  abort?.throwIfAborted()
  await giveRoom(context, record)
  await giveName(context, record, source)
}

/** Memory brings the host name of the sandbox it was saved from. */
async function giveName(
  { layout, agent }: OciContext,
  record: SandboxRecord,
  source: Source | undefined,
): Promise<void> {
  if (!source?.memory || !agent.setHostname || source.snapshot.origin.sandboxID === record.sandboxID) return
  const [program, ...args] = renameArguments(layout, record, agent.setHostname)
  await runCommand(program!, args, { timeoutMs: startLimitMs })
}

async function enterAndRun(
  { runtime, sandboxID }: SandboxRecord,
  folder: string,
  command: string[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const limits = { timeoutMs: startLimitMs, ...(signal && { signal }) }
  try {
    await runCommand('nsenter', command, { env: { PATH: toolPath }, ...limits })
  } catch (error) {
    signal?.throwIfAborted()
    const complaint = (await runtimeComplaint(folder)) ?? errorText(error)
    throw new AppError('unavailable', `${runtime} could not start sandbox ${sandboxID}: ${complaint}`, {
      cause: error,
    })
  }
}

/** gVisor shows the limit it starts under as the sandbox's memory; only then does it get room for itself. */
async function giveRoom({ layout, cgroups }: OciContext, record: SandboxRecord): Promise<void> {
  if (record.runtime !== 'runsc') return
  const totalMB = record.memoryMB + sentryMemoryMB(record.memoryMB)
  await cgroups.raiseMemory(layout.cgroup(record.sandboxID), totalMB * 1024 * 1024)
}

/** Memory that is read back may fill all there is, so the room is needed before that is done. */
async function giveRoomWhenStarted(context: OciContext, record: SandboxRecord): Promise<void> {
  const folder = context.layout.sandbox(record.sandboxID)
  for (let waitedMs = 0; waitedMs < 2_000; waitedMs += 5) {
    if (await startedPid(folder)) return giveRoom(context, record).catch(() => {})
    await delay(5)
  }
}

async function writeBundle(
  context: OciContext,
  folder: string,
  record: SandboxRecord,
  source: Source | undefined,
): Promise<void> {
  const { layout, agent, uidBase, dnsServers, cgroups, openFilesLimit, pidsLimit } = context
  const sysFolder = await context.sysSkeletons.run(String(record.cpuCount), () =>
    makeSysSkeleton(layout.sysSkeletons, record.cpuCount),
  )
  const limitSwap = cgroups.countsSwap
  const input = { layout, record, agent, uidBase, sysFolder, limitSwap, openFilesLimit, pidsLimit }
  const spec = source?.memory ? restoredSpec(await source.config(), layout, record) : containerSpec(input)
  await Promise.all([
    writeFile(join(folder, configName), JSON.stringify(spec)),
    writeSeed(folder, record, uidBase, dnsServers),
    writeShownProc(folder, record),
    linkRoots(layout, folder, record),
  ])
}

async function writeShownProc(folder: string, record: SandboxRecord): Promise<void> {
  const proc = join(folder, 'proc')
  await mkdir(proc)
  await writeFile(join(proc, bootIDName), `${record.bootID}\n`, { mode: 0o444 })
  if (record.runtime !== 'runc') return
  await writeProcFiles(proc, {
    cpuCount: record.cpuCount,
    memoryBytes: record.memoryMB * 1024 * 1024,
    memoryUsedBytes: 0,
    memoryCacheBytes: 0,
    cpuTimeMs: 0,
  })
}
