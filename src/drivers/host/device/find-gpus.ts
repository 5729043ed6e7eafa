/** Finds the NVIDIA GPUs of this machine: from a CDI specification if there is one, otherwise from the driver's files in /proc. */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ifPresentNow } from '../../../lib/if-present.ts'
import { type CdiFile, readCdi } from './cdi.ts'
import type { DeviceNode, Gpu, MachineGpus, NoGpus } from './gpus.ts'

export type GpuSources = {
  /** Root folder of the machine's file system; tests use another folder. */
  root: string
  /** Undefined if there is no character device at this path. */
  deviceAt(path: string): DeviceNode | undefined
  /** Paths of driver files that the machine's own programs use; they may lie outside the usual folders. */
  knownFiles(): readonly string[]
}

const sharedPaths = ['/dev/nvidiactl', '/dev/nvidia-uvm', '/dev/nvidia-uvm-tools']
/** Devices that every program needs to reach any GPU. */
const neededPaths = ['/dev/nvidiactl', '/dev/nvidia-uvm']
const cdiFolders = ['/etc/cdi', '/var/run/cdi', '/run/cdi']
const libraryFolders = [
  '/usr/lib/x86_64-linux-gnu',
  '/usr/lib/aarch64-linux-gnu',
  '/usr/lib64',
  '/usr/lib',
  '/usr/local/nvidia/lib64',
  '/run/nvidia/driver/usr/lib/x86_64-linux-gnu',
  '/run/nvidia/driver/usr/lib/aarch64-linux-gnu',
  '/run/nvidia/driver/usr/lib64',
]
const programFolders = ['/usr/bin', '/usr/local/nvidia/bin', '/run/nvidia/driver/usr/bin']
/** Libraries for computing. Those for screens and video are left out: gVisor does not pass their calls on. */
const libraryNames =
  /^lib(?:cuda|nvidia-(?:ml|ptxjitcompiler|nvvm\d*|gpucomp|opencl|allocator|cfg|compiler|fatbinaryloader|tileiras))\.so\./
const programNames = ['nvidia-smi']

/**
 * Where the machine's own files are. On Kubernetes, Warren runs in a copy of its image beside the machine's first process
 * (docs/decisions/0061-kubernetes.md), and the driver is installed on the machine. A container with process IDs of its own
 * sees itself.
 */
export function machineRoot(own = '/', first = '/proc/1/root'): string {
  try {
    const [mine, machine] = [statSync(own), statSync(first)]
    return mine.dev === machine.dev && mine.ino === machine.ino ? own : first
  } catch {
    // Only root may look there, and only root runs sandboxes.
    return own
  }
}

const machineSources: GpuSources = {
  get root() {
    return machineRoot()
  },
  deviceAt: (path) => deviceAt(path),
  knownFiles: () => [...linkedLibraries(), ...programsOnPath()],
}

/** Throws if a file exists and cannot be read. */
export function findGpus(sources: GpuSources = machineSources): MachineGpus | NoGpus {
  const version = textOf(sources, '/proc/driver/nvidia/version')
  if (version === undefined) {
    const remedy = 'Install the NVIDIA driver if this machine has a GPU.'
    return { reason: 'no NVIDIA driver is loaded', remedy, hasDriver: false }
  }
  const driver = /^NVRM version:.*?\s(\d{3,}\.\d+(?:\.\d+)?)\s/m.exec(version)?.[1]
  if (!driver) {
    return {
      reason: 'the version of the NVIDIA driver cannot be read from /proc/driver/nvidia/version',
      remedy: 'Update the driver.',
      hasDriver: true,
    }
  }
  const missing = neededPaths.filter((path) => !sources.deviceAt(path))
  if (missing.length > 0) {
    return {
      reason: `the driver ${driver} is loaded, but ${missing.join(' and ')} is missing`,
      remedy: 'Run `nvidia-modprobe -c 0 -u`, or give these devices to the container of Warren.',
      hasDriver: true,
    }
  }
  return gpusOf(sources, driver)
}

function gpusOf(sources: GpuSources, driver: string): MachineGpus | NoGpus {
  const cdi = cdiFolders.flatMap((folder) => filesIn(sources, folder)).map((path) => cdiAt(sources, path))
  const [chosen] = cdi.filter((file) => file !== undefined)
  const shown = shownCards(sources)
  const listed = chosen ? chosen.devices.flatMap((device) => cdiGpu(sources, device, shown)) : shown
  // A card that MIG has split works only by its parts.
  const gpus = listed.filter((gpu) => gpu.isPart || !isSplit(sources, gpu))
  if (gpus.length === 0 && listed.length > 0) {
    return {
      reason: `the driver ${driver} is loaded, but MIG has split the card, and no CDI specification names its parts`,
      remedy:
        'Turn MIG off (nvidia-smi -mig 0), or, for WARREN_ISOLATION=container, run nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml',
      hasDriver: true,
    }
  }
  if (gpus.length === 0) {
    return {
      reason: `the driver ${driver} is loaded, but there is no GPU with a device in /dev`,
      remedy: 'Run `nvidia-modprobe -c 0 -u`, or give the GPU’s device to the container of Warren.',
      hasDriver: true,
    }
  }
  const mounted = chosen?.files.map((path) => join(sources.root, path))
  const known = mounted ? [] : sources.knownFiles()
  const beside = [...new Set(known.map((path) => dirname(path)))].flatMap(filesOf)
  const libraries = mounted ?? [...beside, ...libraryFolders.flatMap((folder) => filesIn(sources, folder))]
  const programs = mounted ?? [...known, ...programFolders.flatMap((folder) => filesIn(sources, folder))]
  return {
    driver,
    gpus: gpus.toSorted((a, b) => a.index.localeCompare(b.index, 'en', { numeric: true })),
    sharedNodes: sharedPaths.flatMap((path) => sources.deviceAt(path) ?? []),
    libraries: uniqueNames(libraries.filter((path) => isLibraryOf(path, driver))),
    programs: uniqueNames(programs.filter((path) => programNames.includes(nameOf(path)))),
    source: chosen?.path ?? '/proc/driver/nvidia',
  }
}

/** Returns only cards with a device in /dev: without one a card belongs to others, as with Kubernetes' device plugin. */
function shownCards(sources: GpuSources): Gpu[] {
  const folder = '/proc/driver/nvidia/gpus'
  const names = ifPresentNow(() => readdirSync(join(sources.root, folder))) ?? []
  return names.flatMap((name) => {
    const text = textOf(sources, join(folder, name, 'information')) ?? ''
    const field = (label: string) => new RegExp(`^${label}:\\s*(.+?)\\s*$`, 'm').exec(text)?.[1]
    const [model, uuid, minor] = [field('Model'), field('GPU UUID'), field('Device Minor')]
    const node = minor === undefined ? undefined : sources.deviceAt(`/dev/nvidia${minor}`)
    if (!node || minor === undefined) return []
    // The driver shows question marks until the card is used for the first time.
    const id = uuid && !uuid.includes('?') ? uuid : name
    return [{ id, index: minor, model: model ?? 'NVIDIA GPU', isPart: false, nodes: [node] }]
  })
}

/** The index of a whole card is the number of its device. */
function isSplit({ root }: GpuSources, { index }: Gpu): boolean {
  const folder = join(root, `/proc/driver/nvidia/capabilities/gpu${index}/mig`)
  return (ifPresentNow(() => readdirSync(folder)) ?? []).some((name) => name.startsWith('gi'))
}

function cdiGpu(sources: GpuSources, { names, nodes }: CdiFile['devices'][number], shown: Gpu[]): Gpu[] {
  const found = nodes.flatMap((path) => sources.deviceAt(path) ?? [])
  const card = shown.find(({ nodes: [own] }) => found.some(({ path }) => path === own?.path))
  if (!card) return []
  const isPart = found.length > 1
  const index = names.find((name) => /^\d+(:\d+)?$/.test(name)) ?? card.index
  const id = names.find((name) => /^(GPU|MIG)-/.test(name)) ?? (isPart ? `${card.id}:${index}` : card.id)
  const model = isPart ? `${card.model} (part ${index})` : card.model
  return [{ id, index, model, isPart, nodes: found }]
}

function cdiAt(sources: GpuSources, path: string): CdiFile | undefined {
  if (!/\.(json|yaml)$/.test(path)) return undefined
  return readCdi(path, readFileSync(path, 'utf8'), sources.root)
}

const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1)

/** True for the library file itself, whose name ends with the driver's version; false for links to it. */
const isLibraryOf = (path: string, driver: string): boolean =>
  libraryNames.test(nameOf(path)) && path.endsWith(`.so.${driver}`)

/** Of files with the same name, keeps the first. */
function uniqueNames(paths: readonly string[]): string[] {
  const byName = new Map<string, string>()
  for (const path of paths) if (!byName.has(nameOf(path))) byName.set(nameOf(path), path)
  return [...byName.values()]
}

const filesIn = ({ root }: GpuSources, folder: string): string[] => filesOf(join(root, folder))

function filesOf(folder: string): string[] {
  const names = ifPresentNow(() => readdirSync(folder)) ?? []
  return names.sort().map((name) => join(folder, name))
}

/** Driver libraries in the cache of the machine's loader, with links resolved; none if `ldconfig` cannot be run. */
function linkedLibraries(): string[] {
  const { stdout } = spawnSync('ldconfig', ['-p'], { encoding: 'utf8' })
  const paths = [...(stdout ?? '').matchAll(/^\s*libcuda\.so\.1 .*=> (\/\S+)$/gm)].map(([, path]) => path!)
  return paths.flatMap((path) => ifPresentNow(() => realpathSync(path)) ?? [])
}

function programsOnPath(): string[] {
  const found = programNames.map((name) =>
    spawnSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }),
  )
  return found.flatMap(({ stdout }) => (stdout ?? '').trim() || [])
}

function textOf({ root }: GpuSources, path: string): string | undefined {
  return ifPresentNow(() => readFileSync(join(root, path), 'utf8'))
}

function deviceAt(path: string): DeviceNode | undefined {
  const found = ifPresentNow(() => statSync(path))
  if (!found?.isCharacterDevice()) return undefined
  const { rdev } = found
  return { path, major: (rdev >> 8) & 0xfff, minor: (rdev & 0xff) | ((rdev >>> 12) & 0xfff00) }
}
