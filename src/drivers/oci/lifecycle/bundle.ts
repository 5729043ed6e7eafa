/**
 * The files that the runtime needs to start a sandbox: its configuration, and what is mounted from its
 * folder. They are small and many, and written synchronously: together they take a millisecond, and ten if
 * each step waits for a thread.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentProgram } from '../../../core/ports/agent-program.ts'
import { driverLinks, findLibraryFolder, gpuMount } from '../../host/device/driver-files.ts'
import type { DeviceNode } from '../../host/device/gpus.ts'
import { isFolderInRoot, linkRoots, type SeedOptions, writeSeed } from '../../host/disk/root-layers.ts'
import type { Layout } from '../../host/record/layout.ts'
import type { SandboxRecord } from '../../host/record/records.ts'
import type { SlotUsers } from '../../host/slot/own-users.ts'
import type { DriverGpus, OciContext } from '../context/context.ts'
import { containerSpec, restoredSpec } from '../runtime/container-spec.ts'
import { flavourOf } from '../runtime/flavours.ts'
import { bootIDName, makeSysSkeleton, writeProcFiles } from '../runtime/shown-machine.ts'
import type { RestorePlan } from '../snapshot/restore.ts'
import { configName } from '../snapshot/snapshot-folder.ts'

/** The parts of a start besides its record. */
export type StartParts = { agent: AgentProgram; plan: RestorePlan | undefined; users: SlotUsers | undefined }

export async function writeBundle(
  context: OciContext,
  folder: string,
  record: SandboxRecord,
  { agent, plan, users }: StartParts,
): Promise<void> {
  const { layout, uidBase, dnsServers, cgroups, openFilesLimit, pidsLimit } = context
  const flavour = flavourOf(record)
  await context.sysSkeletons.run(String(record.cpuCount), () =>
    makeSysSkeleton(layout.sysSkeleton(record.cpuCount), record.cpuCount),
  )
  const input = {
    flavour,
    layout,
    record,
    agent,
    firstID: users?.firstID ?? uidBase,
    userNamespace: users?.namespace,
    gpuNodes: gpuNodesOf(context.gpus, record),
    limitSwap: cgroups.countsSwap,
    openFilesLimit,
    pidsLimit,
  }
  const spec = plan?.memory
    ? restoredSpec(await plan.readConfig(), layout, record, input.gpuNodes)
    : containerSpec(input)
  writeFileSync(join(folder, configName), JSON.stringify(spec))
  writeSeed(folder, record, { uidBase, dnsServers, occupiesTmp: flavour.coversEmptyTmp, ...gpuSeed(record) })
  writeShownProc(layout, record)
  linkRoots(layout, folder, record)
}

function gpuNodesOf(gpus: DriverGpus | undefined, { gpus: reserved }: SandboxRecord): DeviceNode[] {
  if (!gpus || !reserved) return []
  const own = gpus.machine.gpus.filter(({ id }) => reserved.ids.includes(id))
  const nodes = [...gpus.machine.sharedNodes, ...own.flatMap((gpu) => gpu.nodes)]
  // Two parts of one card have the card's own node in common.
  return [...new Map(nodes.map((node) => [node.path, node])).values()]
}

function gpuSeed(record: SandboxRecord): Pick<SeedOptions, 'mountPoints' | 'links'> {
  if (!record.gpus) return {}
  const libraryFolder = findLibraryFolder((path) => isFolderInRoot(record, path))
  return { mountPoints: [gpuMount], links: driverLinks(record.gpus.files, libraryFolder) }
}

function writeShownProc(layout: Layout, record: SandboxRecord): void {
  const proc = layout.shownProc(record.sandboxID)
  mkdirSync(proc)
  writeFileSync(join(proc, bootIDName), `${record.bootID}\n`, { mode: 0o444 })
  if (flavourOf(record).showsOwnMachine) return
  writeProcFiles(proc, {
    cpuCount: record.cpuCount,
    memoryBytes: record.memoryMB * 1024 * 1024,
    memoryUsedBytes: 0,
    memoryCacheBytes: 0,
    cpuTimeMs: 0,
  })
}
