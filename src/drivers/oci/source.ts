/** What a sandbox is started from when it is not started anew: which disks of a snapshot it gets, and how. */
import { existsSync } from 'node:fs'
import { readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { RestoreSpec } from '../../core/driver.ts'
import { AppError } from '../../lib/app-error.ts'
import { delay } from '../../lib/clock.ts'
import { runCommand } from '../../lib/run-command.ts'
import { findBuild } from './builds.ts'
import type { ContainerSpec } from './container-spec.ts'
import type { OciContext } from './context.ts'
import type { SandboxRecord } from './records.ts'
import { diskName, layerName, mostLayers } from './root-layers.ts'
import { type MemorySource, restoringName } from './runtime.ts'
import {
  assertOurs,
  claimSnapshot,
  configName,
  copyFile,
  linkFile,
  linkLayers,
  memoryName,
  opensDirectly,
  pagesName,
  readSnapshot,
  releaseSnapshot,
  type SnapshotRecord,
  takerOf,
  usedMark,
} from './snapshot-store.ts'

export type Source = {
  snapshot: SnapshotRecord
  /** Undefined: only files are used. */
  memory: MemorySource | undefined
  runtimeBinary: string | undefined
  /** Disks below the new sandbox's own one. */
  layers: number
  /** The sandbox's disk comes from the snapshot, not from its slot. */
  ownDisk: boolean
  /** A file to make before the sandbox runs, where that uses up the snapshot. */
  usedMark: string | undefined
  config(): Promise<ContainerSpec>
  fetchDisks(record: SandboxRecord): Promise<void>
  /** The runtime has said that the sandbox runs. */
  started(record: SandboxRecord): Promise<void>
  /** For a start that failed: the snapshot is as it was before. */
  giveBack(): Promise<void>
}

/** How the snapshot disk gets into the sandbox: itself, as a copy, or read-only below an empty one. */
type DiskWay = 'move' | 'copy' | 'layer'

export async function openSource(context: OciContext, from: RestoreSpec): Promise<Source> {
  const { layout, runtime } = context
  const folder = assertOurs(layout, from.folder)
  const snapshot = await readSnapshot(folder)
  if (!snapshot) throw new AppError('not_found', `There is no snapshot at ${folder}.`)
  const torn = await refuseUnusable(context, folder, snapshot, from)
  const memory = from.memory && snapshot.build !== null
  const way = await chooseWay(folder, snapshot, from)
  const memorySource = memory ? await findMemory(join(folder, memoryName), way) : undefined
  const runtimeBinary = memory ? await findBuild(snapshot.build!, runtime.binary) : undefined
  let taken = false

  async function fetchDisks(record: SandboxRecord): Promise<void> {
    const own = layout.sandbox(record.sandboxID)
    const disk = join(folder, diskName)
    const { layers } = snapshot!.origin
    if (snapshot!.shared) await untilUnmounted(disk)
    if (way === 'layer') {
      await rename(layout.slotDisk(record.slot), join(own, diskName))
      await linkFile(disk, join(own, layerName(1)))
    } else {
      await rm(layout.slotDisk(record.slot), { force: true })
      if (way === 'copy') await copyFile(disk, join(own, diskName))
      else {
        await claimSnapshot(folder, record)
        taken = true
        await linkFile(disk, join(own, diskName))
      }
      if (torn) await repair(join(own, diskName))
    }
    await linkLayers(folder, own, layers, way === 'layer' ? 1 : 0)
    if (memory) await writeFile(join(own, restoringName), '')
  }

  return {
    snapshot,
    memory: memorySource,
    runtimeBinary,
    layers: snapshot.origin.layers + (way === 'layer' ? 1 : 0),
    ownDisk: way !== 'layer',
    usedMark: way === 'move' ? usedMark(folder) : undefined,
    config: async () => JSON.parse(await readFile(join(folder, configName), 'utf8')) as ContainerSpec,
    fetchDisks,
    started: async (record) => {
      await rm(join(layout.sandbox(record.sandboxID), restoringName), { force: true })
    },
    giveBack: async () => {
      if (taken) await releaseSnapshot(folder)
    },
  }
}

/** What is read only once goes past the page cache; what others will read too had better be in it. */
async function findMemory(folder: string, way: DiskWay): Promise<MemorySource> {
  return { folder, direct: way === 'move' && (await opensDirectly(join(folder, pagesName))) }
}

/** True: a sandbox ran on these very files and is gone, so they match no memory and may need repair. */
async function refuseUnusable(
  { records, runtime }: OciContext,
  folder: string,
  { origin, shared, build }: SnapshotRecord,
  { memory }: RestoreSpec,
): Promise<boolean> {
  if (memory && build && origin.runtime !== runtime.name) {
    throw new AppError(
      'unprocessable',
      `The memory at ${folder} was snapshot under ${origin.runtime}; sandboxes run under ${runtime.name} now. ` +
        'Start without memory.',
    )
  }
  if (shared && (await records.read(origin.sandboxID))?.runID === origin.runID) {
    throw new AppError('conflict', `Sandbox ${origin.sandboxID} still holds these files; stop it first.`)
  }
  const taker = await takerOf(folder)
  if (taker && (await records.read(taker.sandboxID))?.runID === taker.runID) {
    throw new AppError('conflict', `Sandbox ${taker.sandboxID} was already started from ${folder}.`)
  }
  if (taker) await releaseSnapshot(folder)
  const used = existsSync(usedMark(folder))
  if (used && memory && build) {
    throw new AppError(
      'conflict',
      `A sandbox that was started from ${folder} has gone, so its files and its memory do not match any more. ` +
        'Start without memory.',
    )
  }
  return used
}

async function chooseWay(folder: string, snapshot: SnapshotRecord, { keep }: RestoreSpec): Promise<DiskWay> {
  if (keep) return snapshot.origin.layers < mostLayers ? 'layer' : 'copy'
  // Another link is a sandbox that has it mounted read-only: it must not change any more.
  return (await stat(join(folder, diskName))).nlink === 1 ? 'move' : 'copy'
}

/** The kernel lets go of a mount a moment after the last process in it has died. Read-only ones do no harm. */
async function untilUnmounted(image: string): Promise<void> {
  for (let attempt = 0; attempt < 500; attempt++) {
    const { stdout } = await runCommand('losetup', ['--associated', image, '--noheadings', '--output', 'RO'])
    if (!stdout.split('\n').some((line) => line.trim() === '0')) return
    await delay(10)
  }
  throw new AppError('unavailable', `${image} is still in use; try again later.`)
}

async function repair(image: string): Promise<void> {
  await runCommand('e2fsck', ['-f', '-y', image]).catch((error) => {
    // 1 and 2 say that something was found and put right.
    if (!(error instanceof AppError) || Number((error as { exitCode?: number }).exitCode) > 2) throw error
  })
}
