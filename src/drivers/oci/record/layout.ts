/** Every name the driver gives to something in the kernel or on disk. All carry the instance. */
import { createHash } from 'node:crypto'
import { join, resolve } from 'node:path'
import { AppError } from '../../../lib/app-error.ts'

export type Layout = ReturnType<typeof createLayout>

/** Tells Warrens on one machine apart: six characters out of the data folder's path. */
export function instanceOf(dataFolder: string): string {
  return shortHash(resolve(dataFolder))
}

const shortHash = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 6)

/** Commas, colons and backslashes mean something in overlay mount options. */
export function assertPlainPath(path: string): void {
  if (!/^\/[\w./@%+=-]*$/.test(path)) {
    throw new AppError(
      'invalid_argument',
      `"${path}" holds characters that mounts cannot take; use a plain path.`,
    )
  }
}

/** Where a sandbox finds the folder of its agent. */
export const agentMount = '/.warren'

/** Where it is remembered which platform of gVisor is best here. */
export const platformChoiceFile = (dataFolder: string): string => join(dataFolder, 'gvisor-platform.json')

export function createLayout(dataFolder: string, instance: string) {
  const data = resolve(dataFolder)
  assertPlainPath(data)
  if (!/^[a-z0-9]{6}$/.test(instance)) {
    throw new AppError(
      'invalid_argument',
      `"${instance}" is no instance name: six of a-z and 0-9 are needed.`,
    )
  }
  // A reboot must forget what lies here; the sandbox's root has to pass through it, so it is 0711.
  const run = `/run/warren-${instance}`
  return {
    instance,
    data,
    run,
    owner: join(run, 'owner'),
    nextSlot: join(run, 'next-slot'),
    /** The runtime's own state, apart for each slot; short, because sockets lie in it. */
    runtimeStates: join(run, 'state'),
    runtimeState: (slot: number) => join(run, 'state', String(slot)),
    /** Mount namespaces of slots, kept alive by bind mounts; the folder is a private mount of its own. */
    mountNamespaces: join(run, 'mnt'),
    mountNamespace: (slot: number) => join(run, 'mnt', String(slot)),
    /** Mount points; every slot mounts its own things here, in its own mount namespace. */
    diskMount: join(run, 'disk'),
    rootMount: join(run, 'root'),
    layerMounts: join(run, 'layer'),
    layerMount: (number: number) => join(run, 'layer', String(number)),
    /** Disks that sandboxes share. */
    sharedMount: (number: number) => join(run, 'shared', String(number)),
    /** What lies over files of /proc and /sys in containers: a file system of its own. */
    shown: join(run, 'shown'),
    sysSkeletons: join(run, 'shown', 'sys'),
    shownProcs: join(run, 'shown', 'proc'),
    shownProc: (sandboxID: string) => join(run, 'shown', 'proc', sandboxID),
    /** Agents as containers get them mounted. */
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
