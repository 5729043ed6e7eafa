/** One start, step by step: the record first, so that whatever a crash leaves behind can be found. */
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { SandboxSpec } from '../../core/driver.ts'
import { AppError, errorText } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import { containerSpec } from './container-spec.ts'
import type { OciContext } from './context.ts'
import { dismantle } from './dismantle.ts'
import type { SandboxRecord } from './records.ts'
import { overlayOptions, writeSeed } from './root-layers.ts'
import { runArguments, runtimeComplaint } from './runtime.ts'
import { makeSysSkeleton, writeProcFiles } from './shown-machine.ts'

export const diskName = 'disk.ext4'
const startLimitMs = 60_000
const toolPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** Runs in the slot's mount namespace. The runtime gets no pipe of ours: the sandbox would hold it open. */
const mountAndRun = `mount -t overlay -o "$1" overlay "$2" || exit 1
shift 2
exec "$@" </dev/null >/dev/null 2>&1`

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
  const slot = await slots.take(spec.diskMB)
  const record = newRecord(context, spec, slot.number)
  try {
    await records.create(record)
  } catch (error) {
    await slots.remove(slot.number)
    throw error
  }
  try {
    await launch(context, record, signal)
    return record
  } catch (error) {
    await dismantle(context, record.sandboxID)
    throw error
  } finally {
    slots.refill()
  }
}

function newRecord(
  { subnet, runtime, cpuShares }: OciContext,
  spec: SandboxSpec,
  slot: number,
): SandboxRecord {
  const { sandboxID, runID, cpuCount, memoryMB, diskMB, internet } = spec
  return {
    ...{ version: 1, sandboxID, runID, runtime: runtime.name },
    ...{ slot, address: subnet.sandbox(slot), internet },
    rootFolder: resolve(spec.rootFolder),
    ...{ cpuCount, memoryMB, diskMB, cpus: cpuShares.take(sandboxID, cpuCount) },
  }
}

async function launch(context: OciContext, record: SandboxRecord, signal?: AbortSignal): Promise<void> {
  const { layout, cgroups, firewall, runtime } = context
  const folder = layout.sandbox(record.sandboxID)
  signal?.throwIfAborted()
  await Promise.all([
    rename(layout.slotDisk(record.slot), join(folder, diskName)),
    writeBundle(context, folder, record),
    record.internet ? undefined : firewall.takeOffline(record.address),
  ])
  signal?.throwIfAborted()
  const enter = [`--mount=${layout.mountNamespace(record.slot)}`, 'sh', '-c', mountAndRun, 'sh']
  const overlay = [overlayOptions(layout, folder, record), layout.rootMount]
  try {
    await runCommand('nsenter', [...enter, ...overlay, ...runArguments(runtime, layout, record)], {
      env: { PATH: toolPath },
      timeoutMs: startLimitMs,
      ...(signal && { signal }),
    })
  } catch (error) {
    signal?.throwIfAborted()
    const complaint = (await runtimeComplaint(folder)) ?? errorText(error)
    throw new AppError('unavailable', `${runtime.name} could not start the sandbox: ${complaint}`, {
      cause: error,
    })
  }
  signal?.throwIfAborted()
  if (runtime.name !== 'runsc') return
  // gVisor shows the limit it starts under as the sandbox's memory; only then does it get room for itself.
  const totalMB = record.memoryMB + sentryMemoryMB(record.memoryMB)
  await cgroups.raiseMemory(layout.cgroup(record.sandboxID), totalMB * 1024 * 1024)
}

async function writeBundle(context: OciContext, folder: string, record: SandboxRecord): Promise<void> {
  const { layout, agent, uidBase, dnsServers, cgroups, openFilesLimit, pidsLimit } = context
  const sysFolder = await context.sysSkeletons.run(String(record.cpuCount), () =>
    makeSysSkeleton(layout.sysSkeletons, record.cpuCount),
  )
  const spec = containerSpec({
    layout,
    record,
    agent,
    uidBase,
    sysFolder,
    limitSwap: cgroups.countsSwap,
    openFilesLimit,
    pidsLimit,
  })
  await Promise.all([
    writeFile(join(folder, 'config.json'), JSON.stringify(spec)),
    writeSeed(folder, record, uidBase, dnsServers),
    record.runtime === 'runc' ? writeShownProc(folder, record) : undefined,
  ])
}

async function writeShownProc(folder: string, record: SandboxRecord): Promise<void> {
  const proc = join(folder, 'proc')
  await mkdir(proc)
  await writeProcFiles(proc, {
    cpuCount: record.cpuCount,
    memoryBytes: record.memoryMB * 1024 * 1024,
    memoryUsedBytes: 0,
    memoryCacheBytes: 0,
    cpuTimeMs: 0,
  })
}
