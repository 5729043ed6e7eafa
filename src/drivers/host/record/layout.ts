/** Every name that the driver gives to something in the kernel or on disk. All contain the instance. */
import { createHash } from 'node:crypto'
import { join, resolve } from 'node:path'
import { AppError } from '../../../lib/app-error.ts'

export type Layout = ReturnType<typeof createLayout>

/** Distinguishes Warrens on one machine: six characters from the data folder's path. */
export function instanceOf(dataFolder: string): string {
  return shortHash(resolve(dataFolder))
}

const shortHash = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 6)

/** Commas, colons and backslashes have a meaning in overlay mount options. */
export function assertPlainPath(path: string): void {
  if (!/^\/[\w./@%+=-]*$/.test(path)) {
    throw new AppError(
      'invalid_argument',
      `"${path}" holds characters that mounts cannot take; use a plain path.`,
    )
  }
}

/** The path of the agent's folder in a sandbox. */
export const agentMount = '/.warren'

/** The file that stores the best platform of gVisor on this machine. */
export const platformChoiceFile = (dataFolder: string): string => join(dataFolder, 'gvisor-platform.json')

export function createLayout(dataFolder: string, instance: string) {
  const data = resolve(dataFolder)
  assertPlainPath(data)
  if (!/^[a-z0-9]{6}$/.test(instance)) {
    throw new AppError('invalid_argument', `"${instance}" is not an instance name: use six of a-z and 0-9.`)
  }
  // A reboot must clear this folder. Its mode is 0711, because the users of sandboxes pass through it to the mount points
  // in their slots' namespaces. For other users of the machine those are empty, and everything else is closed.
  const run = `/run/warren-${instance}`
  return {
    instance,
    data,
    run,
    owner: join(run, 'owner'),
    nextSlot: join(run, 'next-slot'),
    /** The runtime's own state, separate for each slot; short, because it contains sockets. */
    runtimeStates: join(run, 'state'),
    runtimeState: (slot: number) => join(run, 'state', String(slot)),
    /** Mount namespaces of slots, kept alive by bind mounts; the folder is a private mount. */
    mountNamespaces: join(run, 'mnt'),
    mountNamespace: (slot: number) => join(run, 'mnt', String(slot)),
    /** Mount points; every slot uses them in its own mount namespace. */
    diskMount: join(run, 'disk'),
    rootMount: join(run, 'root'),
    layerMounts: join(run, 'layer'),
    layerMount: (number: number) => join(run, 'layer', String(number)),
    /** Disks that sandboxes share. */
    sharedMount: (number: number) => join(run, 'shared', String(number)),
    /** Mount points of a sandbox's agent, of its own files for /proc, of its /sys, and of the libraries of its GPUs. */
    kitMount: join(run, 'kit'),
    procMount: join(run, 'proc'),
    sysMount: join(run, 'sys'),
    gpuMount: join(run, 'gpu'),
    /** The files over those of /proc and /sys in containers, on a separate file system. */
    shown: join(run, 'shown'),
    sysSkeletons: join(run, 'shown', 'sys'),
    sysSkeleton: (cpuCount: number) => join(run, 'shown', 'sys', `cpus-${cpuCount}`),
    shownProcs: join(run, 'shown', 'proc'),
    shownProc: (sandboxID: string) => join(run, 'shown', 'proc', sandboxID),
    /** Agents as they are mounted in containers. */
    agentMounts: join(run, 'agent'),
    agentMount: (agentFolder: string) => join(run, 'agent', shortHash(agentFolder), 'root'),
    netnsPrefix: `warren-${instance}-`,
    netnsName: (slot: number) => `warren-${instance}-${slot}`,
    netnsPath: (slot: number) => `/run/netns/warren-${instance}-${slot}`,
    emptyNetworkName: `warren-empty-${instance}`,
    emptyNetworkPath: `/run/netns/warren-empty-${instance}`,
    linkPrefix: `w${instance}`,
    link: (slot: number) => `w${instance}${slot}`,
    table: `warren_${instance}`,
    cgroupParent: `/warren-${instance}`,
    cgroup: (sandboxID: string) => `/warren-${instance}/${sandboxID}`,
    /** Libraries of GPU drivers, a folder for each version that was seen here. */
    gpuDrivers: join(data, 'gpu-drivers'),
    sandboxes: join(data, 'sandboxes'),
    sandbox: (sandboxID: string) => join(data, 'sandboxes', sandboxID),
    /** Formatted empty disks, one per size, and the copies that free slots have mounted. */
    disks: join(data, 'disks'),
    blankDisk: (sizeMB: number) => join(data, 'disks', `blank-${sizeMB}.ext4`),
    slotDisk: (slot: number) => join(data, 'disks', `slot-${slot}.ext4`),
  }
}
