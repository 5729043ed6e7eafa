/** One start, step by step, after its record is written. A failure leaves the clean-up to `dismantle`. */
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError, errorText } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import { containerSpec } from './container-spec.ts'
import type { OciContext } from './context.ts'
import type { SandboxRecord } from './records.ts'
import { overlayOptions, writeSeed } from './root-layers.ts'
import { runArguments, runtimeComplaint } from './runtime.ts'
import { makeSysSkeleton, writeProcFiles } from './shown-machine.ts'

const startLimitMs = 60_000
const toolPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** Runs in the slot's mount namespace. The runtime gets no pipe of ours: the sandbox would hold it open. */
const mountAndRun = `mount -t overlay -o "$1" overlay "$2" || exit 1
shift 2
exec "$@" </dev/null >/dev/null 2>&1`

/** What gVisor itself may take on top of the sandbox's memory. */
export const sentryMemoryMB = (memoryMB: number): number => Math.max(128, Math.ceil(memoryMB / 4))

export async function launch(
  context: OciContext,
  record: SandboxRecord,
  signal?: AbortSignal,
): Promise<void> {
  const { layout, cgroups, firewall, runtime } = context
  const folder = layout.sandbox(record.sandboxID)
  await Promise.all([
    rename(layout.slotDisk(record.slot), join(folder, 'disk.ext4')),
    writeBundle(context, folder, record),
    ...(record.internet ? [] : [firewall.takeOffline(record.address)]),
  ])
  signal?.throwIfAborted()
  const enter = [`--mount=${layout.mountNamespace(record.slot)}`, 'sh', '-c', mountAndRun, 'sh']
  const overlay = [overlayOptions(layout, folder, record), layout.rootMount]
  try {
    await runCommand('nsenter', [...enter, ...overlay, ...runArguments(runtime, layout, record.sandboxID)], {
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
  if (runtime.name === 'runsc') {
    await cgroups.raiseMemory(
      layout.cgroup(record.sandboxID),
      (record.memoryMB + sentryMemoryMB(record.memoryMB)) * 1024 * 1024,
    )
  }
}

async function writeBundle(context: OciContext, folder: string, record: SandboxRecord): Promise<void> {
  const { layout, agent, uidBase, dnsServers, cgroups, openFilesLimit } = context
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
