/** Plans the start of a sandbox from a snapshot: which of its disks the sandbox gets, and how. */
import { access, readFile, rename, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { DiskMount, RestoreSpec, SandboxSize } from '../../../core/ports/driver.ts'
import { AppError } from '../../../lib/app-error.ts'
import { delay } from '../../../lib/clock.ts'
import { CommandFailed, runCommand } from '../../../lib/run-command.ts'
import { copyInto, linkFile, linkLayers, opensDirectly } from '../../host/disk/disk-files.ts'
import { diskName, layerName, maxDiskLayers } from '../../host/disk/root-layers.ts'
import { assertSamePaths } from '../../host/disk/shared-disks.ts'
import type { ReservedGpus, SandboxRecord } from '../../host/record/records.ts'
import type { DriverGpus, OciContext } from '../context/context.ts'
import { findBuild } from '../runtime/builds.ts'
import type { ContainerSpec } from '../runtime/container-spec.ts'
import { flavourOf } from '../runtime/flavours.ts'
import type { MemorySource } from '../runtime/runtime-commands.ts'
import { restoringName } from '../runtime/runtime-files.ts'
import { claimSnapshot, readClaim, releaseClaim } from './snapshot-claim.ts'
import {
  assertOurs,
  configName,
  consumedMark,
  isConsumed,
  memoryName,
  pagesName,
  readSnapshot,
  type SnapshotRecord,
  sizeOf,
} from './snapshot-folder.ts'

/**
 * `move`: the sandbox runs on the disk of the snapshot itself; `layer`: the disk is read-only below an empty
 * one.
 */
type DiskUse = 'move' | 'copy' | 'layer'

export class RestorePlan {
  readonly snapshot: SnapshotRecord
  /** Undefined: only files are used. */
  readonly memory: MemorySource | undefined
  /** The build of the runtime that wrote the memory. */
  readonly runtimeBinary: string | undefined
  readonly #folder: string
  readonly #diskUse: DiskUse
  /** A sandbox that was cut off has written to the disk. */
  readonly #needsRepair: boolean
  #isClaimed = false

  constructor(parts: {
    snapshot: SnapshotRecord
    memory: MemorySource | undefined
    runtimeBinary: string | undefined
    folder: string
    diskUse: DiskUse
    needsRepair: boolean
  }) {
    this.snapshot = parts.snapshot
    this.memory = parts.memory
    this.runtimeBinary = parts.runtimeBinary
    this.#folder = parts.folder
    this.#diskUse = parts.diskUse
    this.#needsRepair = parts.needsRepair
  }

  /** Number of disks below the new sandbox's own one. */
  get layers(): number {
    return this.snapshot.origin.layers + (this.#diskUse === 'layer' ? 1 : 0)
  }

  /** The sandbox's disk comes from the snapshot, not from its slot. */
  get bringsDisk(): boolean {
    return this.#diskUse !== 'layer'
  }

  /** The size of a sandbox that is started by this plan if `wanted` was requested. */
  sizeFor(wanted: SandboxSize): SandboxSize {
    const { origin } = this.snapshot
    if (this.memory) return sizeOf(origin)
    const { cpuCount, memoryMB, gpuCount = 0 } = wanted
    const disks = { move: origin.diskMB, copy: Math.max(origin.diskMB, wanted.diskMB), layer: wanted.diskMB }
    return { cpuCount, memoryMB, diskMB: disks[this.#diskUse], gpuCount }
  }

  /** A file to create before the sandbox runs, if that consumes the snapshot. */
  get consumedMark(): string | undefined {
    return this.#diskUse === 'move' ? consumedMark(this.#folder) : undefined
  }

  async readConfig(): Promise<ContainerSpec> {
    return JSON.parse(await readFile(join(this.#folder, configName), 'utf8')) as ContainerSpec
  }

  /** Moves, copies or links the disks into the folder of the sandbox. */
  async bringDisks({ layout }: OciContext, record: SandboxRecord): Promise<void> {
    const own = layout.sandbox(record.sandboxID)
    const disk = join(this.#folder, diskName)
    if (this.snapshot.shared) await untilUnmounted(disk)
    if (this.#diskUse === 'layer') {
      await rename(layout.slotDisk(record.slot), join(own, diskName))
      await linkFile(disk, join(own, layerName(1)))
    } else {
      await rm(layout.slotDisk(record.slot), { force: true })
      await this.#bringOwnDisk(disk, own, record)
    }
    await linkLayers(this.#folder, own, this.snapshot.origin.layers, this.#diskUse === 'layer' ? 1 : 0)
    if (this.memory) await writeFile(join(own, restoringName), '')
  }

  async #bringOwnDisk(disk: string, own: string, record: SandboxRecord): Promise<void> {
    if (this.#diskUse === 'copy') await copyInto(disk, own)
    else {
      await claimSnapshot(this.#folder, record)
      this.#isClaimed = true
      await linkFile(disk, join(own, diskName))
    }
    const grows = record.diskMB > this.snapshot.origin.diskMB
    if (this.#needsRepair || grows) await repair(join(own, diskName))
    if (grows) await grow(join(own, diskName), record.diskMB)
  }

  /** Call it after the runtime has reported that the sandbox runs. */
  async finish({ layout }: OciContext, { sandboxID }: SandboxRecord): Promise<void> {
    await rm(join(layout.sandbox(sandboxID), restoringName), { force: true })
  }

  /** Call it after a failed start: others may start from the snapshot again. */
  async release(): Promise<void> {
    if (this.#isClaimed) await releaseClaim(this.#folder)
  }
}

export async function planRestore(
  context: OciContext,
  from: RestoreSpec,
  mounts?: readonly DiskMount[],
): Promise<RestorePlan> {
  const folder = assertOurs(context.layout, from.folder)
  const snapshot = await readSnapshot(folder)
  if (!snapshot) throw new AppError('not_found', `There is no snapshot at ${folder}.`)
  await assertNotInUse(context, folder, snapshot)
  const consumed = await isConsumed(folder)
  const wantsMemory = from.memory && snapshot.build !== null
  if (wantsMemory) {
    if (snapshot.arriving && from.keepSnapshot) {
      throw new AppError('conflict', `The memory of the snapshot at ${folder} is not complete.`)
    }
    assertMemoryFits(context, folder, snapshot, consumed)
    assertSamePaths(snapshot.origin.mounts, mounts)
  }
  const diskUse = await chooseDiskUse(folder, snapshot, from)
  return new RestorePlan({
    snapshot,
    folder,
    diskUse,
    needsRepair: consumed,
    memory: wantsMemory ? await findMemory(folder, snapshot, diskUse) : undefined,
    runtimeBinary: wantsMemory ? await findBuild(snapshot.build!, context.runtime.binary) : undefined,
  })
}

/** Data that is read only once bypasses the page cache; data that others will read too should be in it. */
async function findMemory(
  snapshotFolder: string,
  { arriving }: SnapshotRecord,
  diskUse: DiskUse,
): Promise<MemorySource> {
  const folder = join(snapshotFolder, memoryName)
  const isReadOnce = diskUse === 'move' && !arriving
  return { folder, direct: isReadOnce && (await opensDirectly(join(folder, pagesName))) }
}

async function assertNotInUse(
  { records }: OciContext,
  folder: string,
  snapshot: SnapshotRecord,
): Promise<void> {
  const { origin, shared } = snapshot
  const runs = async (of: { sandboxID: string; runID: string }) =>
    (await records.read(of.sandboxID))?.runID === of.runID
  if (shared && (await runs(origin))) {
    throw new AppError('conflict', `Sandbox ${origin.sandboxID} still uses these files; stop it first.`)
  }
  const claim = await readClaim(folder)
  if (!claim) return
  if (await runs(claim)) {
    throw new AppError('conflict', `Sandbox ${claim.sandboxID} was already started from ${folder}.`)
  }
  await releaseClaim(folder)
}

function assertMemoryFits(
  { runtime, gpus }: OciContext,
  folder: string,
  { origin }: SnapshotRecord,
  consumed: boolean,
): void {
  const { isolation } = flavourOf(origin)
  if (isolation !== runtime.flavour.isolation) {
    throw new AppError(
      'unprocessable',
      `The snapshot at ${folder} was taken under the isolation ${isolation}; sandboxes now run under ` +
        `${runtime.flavour.isolation}. Start without memory.`,
    )
  }
  const unfit = origin.gpus && whyGpusUnfit(gpus, origin.gpus)
  if (unfit) throw new AppError('unprocessable', `${unfit} Start without memory.`)
  if (consumed) {
    throw new AppError(
      'conflict',
      `A sandbox that was started from ${folder} has gone, so its files and its memory do not match any more. ` +
        'Start without memory.',
    )
  }
}

/** Snapshots of earlier versions in an object store tell only how many they were. */
export type GpuNeeds = Pick<ReservedGpus, 'model' | 'driver'> & {
  ids: readonly string[] | { length: number }
}

/** Returns a sentence that says why memory that was used with these GPUs cannot be restored on this machine. */
export function whyGpusUnfit(gpus: DriverGpus | undefined, needs: GpuNeeds): string | undefined {
  const { model, driver, ids } = needs
  const wanted = `The snapshot was taken with ${ids.length} × ${model} under the driver ${driver}`
  if (!gpus) return `${wanted}, and sandboxes have no GPU here.`
  if (gpus.machine.driver !== driver)
    return `${wanted}, and this machine has the driver ${gpus.machine.driver}.`
  const alike = gpus.machine.gpus.filter((gpu) => gpu.model === model)
  if (alike.length < ids.length) return `${wanted}, and this machine has ${alike.length} of that kind.`
  const isThere = (id: string) => alike.some((gpu) => gpu.id === id)
  const isSame = Array.isArray(ids) && ids.every(isThere)
  return isSame
    ? undefined
    : `${wanted}. It can only go back to the very same GPU, which this machine does not have.`
}

async function chooseDiskUse(
  folder: string,
  snapshot: SnapshotRecord,
  { keepSnapshot }: RestoreSpec,
): Promise<DiskUse> {
  if (keepSnapshot) return snapshot.origin.layers < maxDiskLayers ? 'layer' : 'copy'
  // Another link belongs to a sandbox that has it mounted read-only: it must not change any more.
  return (await stat(join(folder, diskName))).nlink === 1 ? 'move' : 'copy'
}

/**
 * The kernel releases a mount a moment after the last process in it has died. Read-only mounts do no harm.
 */
export async function untilUnmounted(image: string): Promise<void> {
  await access(image)
  for (let attempt = 0; attempt < 500; attempt++) {
    const { stdout } = await runCommand('losetup', ['--associated', image, '--noheadings', '--output', 'RO'])
    if (!stdout.split('\n').some((line) => line.trim() === '0')) return
    await delay(10)
  }
  throw new AppError('unavailable', `${image} is still in use; try again later.`)
}

/** Makes a disk image larger whose file system was checked just now. */
async function grow(image: string, sizeMB: number): Promise<void> {
  await truncate(image, sizeMB * 2 ** 20)
  await runCommand('resize2fs', [image])
}

async function repair(image: string): Promise<void> {
  await runCommand('e2fsck', ['-f', '-y', image]).catch((error) => {
    // 1 and 2 mean that errors were found and corrected.
    if (!(error instanceof CommandFailed) || error.exitCode === null || error.exitCode > 2) throw error
  })
}
