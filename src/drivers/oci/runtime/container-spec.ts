/** The OCI configuration of a sandbox: the parts that both runtimes share; the flavour provides the rest. */
import { join } from 'node:path'
import { gpuMount } from '../../host/device/driver-files.ts'
import type { DeviceNode } from '../../host/device/gpus.ts'
import { sharedFolders } from '../../host/disk/shared-disks.ts'
import { mappedIDs } from '../../host/namespace/mapped-ids.ts'
import type { ResourceLimit } from '../../host/namespace/start-runtime.ts'
import { agentMount, type Layout } from '../../host/record/layout.ts'
import type { SandboxRecord } from '../../host/record/records.ts'
import type { ContainerInput, Mount } from './runtime-flavour.ts'
import { bootIDName } from './shown-machine.ts'

/**
 * Enough for sudo, apt-get, useradd, su and chown; nothing for mounts, raw sockets, links, tracing or clocks.
 */
const fewCapabilities = [
  'CAP_AUDIT_WRITE',
  'CAP_CHOWN',
  'CAP_DAC_OVERRIDE',
  'CAP_FOWNER',
  'CAP_FSETID',
  'CAP_KILL',
  'CAP_NET_BIND_SERVICE',
  'CAP_SETFCAP',
  'CAP_SETGID',
  'CAP_SETPCAP',
  'CAP_SETUID',
  'CAP_SYS_CHROOT',
]
/**
 * For a root whose kernel is the sandbox's own. SYS_PTRACE is left out because it would let root trace init and the agent;
 * root can trace its own programs without it. SYS_RESOURCE is left out because it would let root raise limits.
 */
const furtherCapabilities = [
  ...['AUDIT_CONTROL', 'AUDIT_READ', 'BLOCK_SUSPEND', 'BPF', 'CHECKPOINT_RESTORE', 'DAC_READ_SEARCH'],
  ...['IPC_LOCK', 'IPC_OWNER', 'LEASE', 'LINUX_IMMUTABLE', 'MAC_ADMIN', 'MAC_OVERRIDE', 'MKNOD', 'NET_ADMIN'],
  ...['NET_BROADCAST', 'NET_RAW', 'PERFMON', 'SYS_ADMIN', 'SYS_BOOT', 'SYS_MODULE', 'SYS_NICE', 'SYS_PACCT'],
  ...['SYS_RAWIO', 'SYS_TIME', 'SYS_TTY_CONFIG', 'SYSLOG', 'WAKE_ALARM'],
].map((name) => `CAP_${name}`)

export type ContainerSpec = ReturnType<typeof containerSpec>

/**
 * gVisor restores memory only under the specification with which the snapshot was taken. Only paths, names
 * and CPUs are those of the new sandbox.
 */
export function restoredSpec(
  saved: ContainerSpec,
  layout: Layout,
  record: SandboxRecord,
  gpuNodes: readonly DeviceNode[],
): ContainerSpec {
  const { linux } = saved
  return {
    ...saved,
    hostname: record.sandboxID,
    root: { ...saved.root, path: layout.rootMount },
    mounts: saved.mounts.map((mount) => {
      if (mount.destination === agentMount) return { ...mount, source: layout.kitMount }
      if (mount.destination === gpuMount) return { ...mount, source: layout.gpuMount }
      return mount.destination === bootIDPath ? { ...mount, source: ownBootID(layout) } : mount
    }),
    linux: {
      ...linux,
      namespaces: linux.namespaces.map((each) =>
        each.type === 'network' ? { ...each, path: layout.netnsPath(record.slot) } : each,
      ),
      cgroupsPath: layout.cgroup(record.sandboxID),
      resources: { ...linux.resources, cpu: cpuLimits(record), devices: deviceRules(gpuNodes) },
      ...deviceList(gpuNodes),
    },
  }
}

export function containerSpec(input: ContainerInput) {
  const { layout, record, firstID, userNamespace } = input
  const mapping = [{ containerID: 0, hostID: firstID, size: mappedIDs }]
  const parts = input.flavour.specParts(input)
  return {
    ociVersion: '1.0.2',
    hostname: record.sandboxID,
    root: { path: layout.rootMount, readonly: false },
    process: agentProcess(input, parts.rlimits),
    mounts: [
      ...commonMounts(input, parts.devptsOptions),
      ...parts.mounts,
      ...gpuMounts(input),
      ...sharedMounts(input),
    ],
    linux: {
      uidMappings: mapping,
      gidMappings: mapping,
      namespaces: [
        { type: 'user', ...(userNamespace && { path: userNamespace }) },
        { type: 'pid' },
        { type: 'mount' },
        { type: 'ipc' },
        { type: 'uts' },
        { type: 'cgroup' },
        { type: 'network', path: layout.netnsPath(record.slot) },
      ],
      cgroupsPath: layout.cgroup(record.sandboxID),
      resources: resources(input, parts.hostPidsLimit),
      ...deviceList(input.gpuNodes),
      ...parts.linux,
    },
  }
}

function agentProcess({ agent, flavour, openFilesLimit }: ContainerInput, rlimits: ResourceLimit[]) {
  const capabilities = flavour.hasOwnKernel ? [...fewCapabilities, ...furtherCapabilities] : fewCapabilities
  const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', ...agent.env }
  return {
    terminal: false,
    user: { uid: 0, gid: 0, additionalGids: [0] },
    cwd: '/',
    args: [...(flavour.startsUnreadable ? (agent.unreadableCommand ?? agent.command) : agent.command)],
    env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
    // Setuid programs must work: clients rely on sudo, and the root user of a sandbox is unprivileged on the
    // host.
    noNewPrivileges: false,
    capabilities: { bounding: capabilities, effective: capabilities, permitted: capabilities },
    rlimits: flavour.inheritsLimits ? [] : [...processLimits(openFilesLimit), ...rlimits],
  }
}

const usualOpenFiles = 65_536
/** A usual group has 1024: this is little beside a sandbox in use, and enough for a boot to end. */
const backgroundShares = 102

export const processLimits = (openFilesLimit: number): ResourceLimit[] => [
  { type: 'RLIMIT_NOFILE', soft: Math.min(usualOpenFiles, openFilesLimit), hard: openFilesLimit },
  // One byte, not zero: only this keeps a host's piped core handler from running for a sandbox.
  { type: 'RLIMIT_CORE', soft: 1, hard: 1 },
]

/**
 * Threads and processes of each user inside. A command may have fewer than the agent may ask for, so that
 * after a fork bomb, even by root, there is headroom for commands that inspect and end it.
 */
export function processCountLimit(max: number): ResourceLimit {
  return { type: 'RLIMIT_NPROC', soft: max - Math.ceil(max / 8), hard: max }
}

function resources({ record, limitSwap, gpuNodes }: ContainerInput, hostPidsLimit: number) {
  const memory = record.memoryMB * 1024 * 1024
  return {
    memory: { limit: memory, ...(limitSwap && { swap: memory }) },
    cpu: cpuLimits(record),
    pids: { limit: hostPidsLimit },
    devices: deviceRules(gpuNodes),
  }
}

/** A sandbox with a GPU may use all devices of that GPU, and no user inside may make device nodes. */
const gpuNodeMode = 0o666

/** Missing rather than empty: gVisor's checkpoints forget empty lists and then miss them. */
function deviceList(nodes: readonly DeviceNode[]) {
  if (nodes.length === 0) return {}
  return { devices: nodes.map((node) => ({ type: 'c', fileMode: gpuNodeMode, uid: 0, gid: 0, ...node })) }
}

/** None but those of its GPUs: the runtimes add the usual few by themselves. */
function deviceRules(nodes: readonly DeviceNode[]) {
  return [
    { allow: false, access: 'rwm' },
    ...nodes.map(({ major, minor }) => ({ allow: true, type: 'c', major, minor, access: 'rw' })),
  ]
}

function gpuMounts({ layout, record }: ContainerInput): Mount[] {
  return record.gpus ? [bindMount(layout.gpuMount, gpuMount, ['rbind', 'ro', 'nosuid', 'nodev'])] : []
}

function cpuLimits({ cpuCount, cpus, background }: SandboxRecord) {
  const shares = background && { shares: backgroundShares }
  return { period: 100_000, quota: cpuCount * 100_000, ...(cpus && { cpus }), ...shares }
}

/** Their sources are the same in every slot, so that restored memory finds them again. */
function sharedMounts({ layout, record }: ContainerInput): Mount[] {
  const folders = sharedFolders(layout, record)
  return (record.mounts ?? []).map(({ path }, at) =>
    bindMount(folders[at]!, path, ['bind', 'rw', 'nosuid', 'nodev']),
  )
}

export const quietMount = ['nosuid', 'noexec', 'nodev']

export function bindMount(
  source: string,
  destination: string,
  options = ['rbind', 'ro', ...quietMount],
): Mount {
  return { destination, type: 'bind', source, options }
}

export const bootIDPath = '/proc/sys/kernel/random/boot_id'

export const ownBootID = (layout: Layout): string => join(layout.procMount, bootIDName)

function commonMounts({ layout, record }: ContainerInput, devptsOptions: readonly string[]): Mount[] {
  const shm = `size=${Math.max(64, Math.floor(record.memoryMB / 2))}m`
  return [
    { destination: '/proc', type: 'proc', source: 'proc', options: quietMount },
    {
      destination: '/dev',
      type: 'tmpfs',
      source: 'tmpfs',
      options: ['nosuid', 'strictatime', 'mode=755', 'size=64k'],
    },
    {
      destination: '/dev/pts',
      type: 'devpts',
      source: 'devpts',
      options: ['nosuid', 'noexec', 'newinstance', 'ptmxmode=0666', 'mode=0620', 'gid=5', ...devptsOptions],
    },
    { destination: '/dev/shm', type: 'tmpfs', source: 'shm', options: [...quietMount, 'mode=1777', shm] },
    { destination: '/dev/mqueue', type: 'mqueue', source: 'mqueue', options: quietMount },
    bindMount(layout.kitMount, agentMount, ['rbind', 'ro', 'nosuid', 'nodev']),
  ]
}
