/**
 * Snapshots that move from one machine to another. Paths below the data folder are stored relative to it,
 * because each machine has its own. Files fit everywhere; memory needs the same build of the runtime, a CPU
 * with all features that its programs have seen, and the same agent kit.
 */
import { access, mkdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { ImportOptions, MemoryNeeds, PortableSnapshot, Snapshot } from '../../../core/ports/driver.ts'
import type { PackNote, PackTarget } from '../../../core/ports/object-store.ts'
import { AppError } from '../../../lib/app-error.ts'
import { ifPresent } from '../../../lib/if-present.ts'
import { diskName, layerName, layerNumbers } from '../../host/disk/root-layers.ts'
import type { ReservedGpus, SandboxRecord } from '../../host/record/records.ts'
import type { OciContext } from '../context/context.ts'
import { describeBuild, findBuildByHash, type RuntimeBuild } from '../runtime/builds.ts'
import { candidatePlatforms } from '../runtime/platforms.ts'
import { startPageServer } from './page-server.ts'
import { type GpuNeeds, untilUnmounted, whyGpusUnfit } from './restore.ts'
import {
  beginSnapshot,
  configName,
  describeSnapshot,
  finishSnapshot,
  isConsumed,
  memoryFiles,
  memoryName,
  pagesFile,
  readSnapshot,
  removeSnapshot,
  type SnapshotRecord,
} from './snapshot-folder.ts'

export type FetchFiles = (targetOf: (note: PackNote) => Promise<PackTarget>) => Promise<boolean>

const exportVersion = 1
/** Stands for the data folder at the beginning of a path. */
const dataMark = 'data:'

let ownFeatures: Promise<Set<string>> | undefined

export async function exportSnapshot(
  context: OciContext,
  folder: string,
): Promise<PortableSnapshot | undefined> {
  const record = await readSnapshot(folder)
  if (!record || record.arriving) return undefined
  if (record.origin.mounts && record.origin.mounts.length > 0) {
    throw new AppError('unprocessable', 'A sandbox with volumes stays on the machine that has their disks.')
  }
  // The sandbox that wrote to the disk may have ended a moment ago.
  if (record.shared) await untilUnmounted(join(folder, diskName))
  const memory = record.build !== null && !(await isConsumed(folder))
  const portable = portableRecord(context, memory ? record : { ...record, build: null })
  const needs = memory ? await needsOf(portable.origin, record.build!) : null
  // The memory first: whoever reads the end of the pack gets all that a start needs before it.
  const names = [
    ...(memory ? [pagesFile] : []),
    diskName,
    ...layerNumbers(record.origin).map(layerName),
    ...(memory ? [configName, ...memoryFiles.filter((name) => name !== pagesFile)] : []),
  ]
  return {
    files: names.map((name) => ({ name, path: join(folder, name) })),
    note: { version: exportVersion, record: portable, needs },
    needs,
  }
}

/** The needs of a snapshot of this sandbox. */
export async function memoryNeeds(context: OciContext, record: SandboxRecord): Promise<MemoryNeeds> {
  const build = await describeBuild(record.runtimeBinary)
  return needsOf(portableRecord(context, { version: 1, origin: record, shared: false, build }).origin, build)
}

export async function whyUnfit(context: OciContext, needs: MemoryNeeds): Promise<string | undefined> {
  const { runtime, platform, build = '', cpu = '', agentFolder = '', gpu } = needs
  if (runtime !== context.runtime.flavour.runtime) {
    return `It was taken by ${runtime}, and sandboxes run under ${context.runtime.flavour.runtime} here.`
  }
  if ((await findBuildByHash(build, context.runtime.binary)) === undefined) {
    return `It was taken by a build of ${runtime} (SHA-256 ${build.slice(0, 12)}…) that is not on this machine.`
  }
  const features = await cpuFeatures()
  const missing = cpu.split(' ').filter((feature) => feature !== '' && !features.has(feature))
  if (missing.length > 0)
    return `It needs CPU features that this machine lacks: ${missing.slice(0, 8).join(', ')}.`
  const unfit = gpu === undefined ? undefined : whyGpusUnfit(context.gpus, JSON.parse(gpu) as GpuNeeds)
  if (unfit) return unfit
  if (platform === 'kvm' && !candidatePlatforms().includes('kvm'))
    return 'It needs KVM, which this machine lacks.'
  const isKitHere = await ifPresent(access(localPath(context, agentFolder)).then(() => true))
  return isKitHere
    ? undefined
    : `It needs an agent that is not on this machine (${basename(agentFolder).slice(0, 12)}…).`
}

/** The disk gets its final name when everything is there. */
export async function importSnapshot(
  context: OciContext,
  folder: string,
  { memory, memoryLater = false }: ImportOptions,
  fetch: FetchFiles,
): Promise<Snapshot | undefined> {
  const there = await describeSnapshot(folder)
  if (there && !there.arriving) return there
  if (there) await removeSnapshot(folder)
  const partial = await beginSnapshot(folder)
  try {
    let record: SnapshotRecord | undefined
    let laterBytes = 0
    const isThere = await fetch(async (note) => {
      const { record: exported, needs } = readNote(note)
      const keepsMemory = memory && needs !== null && (await whyUnfit(context, needs)) === undefined
      record = localRecord(context, keepsMemory ? exported : { ...exported, build: null })
      if (keepsMemory) await mkdir(join(partial, memoryName))
      const wanted = [diskName, ...layerNumbers(record.origin).map(layerName)]
      if (keepsMemory) wanted.push(configName, ...memoryFiles)
      // The memory of GPUs is restored before a sandbox runs, so all of it must be there.
      const isLater = keepsMemory && memoryLater && context.pages !== undefined && !record.origin.gpus
      return {
        isTemporary: isLater,
        open(name, bytes) {
          if (isLater && name === pagesFile) laterBytes = bytes
          else if (wanted.includes(name)) return join(partial, name)
          return undefined
        },
      }
    })
    if (!isThere || !record) await removeSnapshot(folder)
    else if (laterBytes > 0) {
      await startPageServer(context.pages!.program, partial, laterBytes)
      // It need not survive a power cut, because the object store has it.
      await finishSnapshot(folder, { ...record, arriving: true }, false)
    } else await finishSnapshot(folder, record, true)
    return await describeSnapshot(folder)
  } catch (error) {
    await removeSnapshot(folder)
    throw error
  }
}

type ExportNote = { version: number; record: SnapshotRecord; needs: MemoryNeeds | null }

export const needsIn = (note: PackNote): MemoryNeeds | null => readNote(note).needs

function readNote(note: PackNote): ExportNote {
  const known = note as ExportNote
  if (known.version === exportVersion) return known
  throw new AppError(
    'unprocessable',
    `The snapshot was stored by another version of Warren (format ${known.version}, this one reads ${exportVersion}).`,
  )
}

/** Programs in memory may have seen every feature of the CPU, and continue to use it. */
async function needsOf(origin: SandboxRecord, build: RuntimeBuild): Promise<MemoryNeeds> {
  const { runtime, platform, agentFolder, gpus } = origin
  return {
    runtime,
    agentFolder,
    build: build.sha256,
    ...(platform !== null && { platform }),
    cpu: [...(await cpuFeatures())].join(' '),
    ...(gpus && { gpu: gpuNeeds(gpus) }),
  }
}

function gpuNeeds({ model, driver, ids }: ReservedGpus): string {
  return JSON.stringify({ model, driver, ids } satisfies GpuNeeds)
}

function cpuFeatures(): Promise<Set<string>> {
  ownFeatures ??= readFile('/proc/cpuinfo', 'utf8').then((text) => {
    // `flags` on x86, `Features` on ARM; all CPUs of a machine have the same.
    const [, flags = ''] = /^(?:flags|Features)\s*:\s*(.*)$/m.exec(text) ?? []
    return new Set(
      flags
        .split(' ')
        .filter((flag) => flag !== '')
        .sort(),
    )
  })
  return ownFeatures
}

const portableRecord = ({ layout }: OciContext, record: SnapshotRecord): SnapshotRecord =>
  withPaths(record, (path) =>
    path.startsWith(`${layout.data}/`) ? dataMark + path.slice(layout.data.length + 1) : path,
  )

function localRecord(context: OciContext, record: SnapshotRecord): SnapshotRecord {
  const local = withPaths(record, (path) => localPath(context, path))
  return { ...local, shared: false, imported: true }
}

function localPath({ layout }: OciContext, path: string): string {
  if (!path.startsWith(dataMark)) return path
  const local = join(layout.data, path.slice(dataMark.length))
  if (local.startsWith(`${layout.data}/`)) return local
  throw new AppError('internal', 'A snapshot of another machine names a path outside of the data folder.')
}

function withPaths(record: SnapshotRecord, change: (path: string) => string): SnapshotRecord {
  const { origin } = record
  const { rootFolder, lowerFolders, agentFolder } = origin
  const changed: SandboxRecord = {
    ...origin,
    rootFolder: change(rootFolder),
    agentFolder: change(agentFolder),
    ...(lowerFolders && { lowerFolders: lowerFolders.map(change) }),
  }
  return { ...record, origin: changed }
}
