/** The OCI configuration of a sandbox: one shape for both runtimes; what differs is said here and nowhere else. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Layout } from './layout.ts'
import type { SandboxRecord } from './records.ts'
import { seccompProfile } from './seccomp.ts'
import { bootIDName, shownProcFiles } from './shown-machine.ts'

export type AgentCommand = {
  /** Bind-mounted read-only at `agentMount`. */
  folder: string
  /** Runs as pid 1. */
  command: readonly string[]
  /**
   * The same, by a file that nobody inside may read: Linux lets nobody trace what they may not read. gVisor cannot
   * start such a file, and lets nobody trace pid 1 anyway.
   */
  unreadableCommand?: readonly string[]
  env: Record<string, string>
  /** A program inside that sets the host name given as its last argument; for memory that outlives its name. */
  setHostname?: readonly string[]
}

export const agentMount = '/.warren'
export const mappedIDs = 65_536
/** Enough for sudo, apt-get, useradd, su and chown; nothing for mounts, raw sockets, links, tracing or clocks. */
const capabilities = [
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

const maskedPaths = [
  '/proc/acpi',
  '/proc/asound',
  '/proc/cmdline',
  '/proc/config.gz',
  '/proc/diskstats',
  '/proc/interrupts',
  '/proc/kallsyms',
  '/proc/kcore',
  '/proc/key-users',
  '/proc/keys',
  '/proc/kmsg',
  '/proc/latency_stats',
  '/proc/modules',
  '/proc/partitions',
  '/proc/sched_debug',
  '/proc/scsi',
  '/proc/timer_list',
  '/proc/timer_stats',
  '/proc/vmallocinfo',
]

const readonlyPaths = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger']

type Mount = { destination: string; type: string; source: string; options: string[] }

export type ContainerInput = {
  layout: Layout
  record: SandboxRecord
  agent: AgentCommand
  uidBase: number
  /** The read-only /sys for runc. */
  sysFolder: string
  /** Swap can be accounted here, so it can be forbidden. */
  limitSwap: boolean
  /** Hard limit of open files of this process: no sandbox can have more. */
  openFilesLimit: number
  /** Threads and processes; a fork bomb ends here. */
  pidsLimit: number
}

export type ContainerSpec = ReturnType<typeof containerSpec>

/** gVisor reads memory back only under the specification it was saved with; but for where things are. */
export function restoredSpec(saved: ContainerSpec, layout: Layout, record: SandboxRecord): ContainerSpec {
  const { linux } = saved
  return {
    ...saved,
    hostname: record.sandboxID,
    root: { ...saved.root, path: layout.rootMount },
    mounts: saved.mounts.map((mount) => {
      if (mount.destination === agentMount) return { ...mount, source: record.agentFolder }
      return mount.destination === bootIDPath ? { ...mount, source: bootIDFile(layout, record) } : mount
    }),
    linux: {
      ...linux,
      namespaces: linux.namespaces.map((each) =>
        each.type === 'network' ? { ...each, path: layout.netnsPath(record.slot) } : each,
      ),
      cgroupsPath: layout.cgroup(record.sandboxID),
      resources: { ...linux.resources, cpu: cpuLimits(record) },
    },
  }
}

export function containerSpec(input: ContainerInput) {
  const { layout, record, agent, uidBase } = input
  const gvisor = record.runtime === 'runsc'
  const mapping = [{ containerID: 0, hostID: uidBase, size: mappedIDs }]
  const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', ...agent.env }
  return {
    ociVersion: '1.0.2',
    hostname: record.sandboxID,
    root: { path: layout.rootMount, readonly: false },
    process: {
      terminal: false,
      user: { uid: 0, gid: 0, additionalGids: [0] },
      cwd: '/',
      args: [...(gvisor ? agent.command : (agent.unreadableCommand ?? agent.command))],
      env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
      // Setuid programs must work: sudo is part of the promise, and sandbox root is nobody outside.
      noNewPrivileges: false,
      capabilities: { bounding: capabilities, effective: capabilities, permitted: capabilities },
      rlimits: [
        { type: 'RLIMIT_NOFILE', soft: Math.min(65_536, input.openFilesLimit), hard: input.openFilesLimit },
        // One byte, not zero: only this keeps a host's piped core handler from being run for a sandbox.
        { type: 'RLIMIT_CORE', soft: 1, hard: 1 },
        ...(gvisor ? [guestPidsLimit(input.pidsLimit)] : []),
      ],
    },
    mounts: mounts(input, gvisor),
    ...(!gvisor && { hooks: { createContainer: [coverBootID(input)] } }),
    linux: {
      uidMappings: mapping,
      gidMappings: mapping,
      namespaces: [
        { type: 'user' },
        { type: 'pid' },
        { type: 'mount' },
        { type: 'ipc' },
        { type: 'uts' },
        { type: 'cgroup' },
        { type: 'network', path: layout.netnsPath(record.slot) },
      ],
      cgroupsPath: layout.cgroup(record.sandboxID),
      resources: resources(input, gvisor),
      // Not there rather than empty: gVisor's checkpoints forget the empty ones and then miss them.
      ...(!gvisor && { maskedPaths, readonlyPaths, seccomp: seccompProfile }),
    },
  }
}

/**
 * gVisor spends ten to twenty threads of the host on a process (ptrace; systrap two), and running into the host's
 * limit ends the whole sandbox: that one stands far off, as the last resort. This one gives an error inside;
 * gVisor counts it per user, and nobody there may raise it.
 */
function guestPidsLimit(pidsLimit: number) {
  const perUser = Math.ceil(pidsLimit / 4)
  return { type: 'RLIMIT_NPROC', soft: perUser, hard: perUser }
}

function hostPidsLimit(pidsLimit: number): number {
  const machine = Number(readFileSync('/proc/sys/kernel/pid_max', 'utf8'))
  return Math.min(pidsLimit * 8, Math.floor(machine / 4))
}

/**
 * Runs inside, before the root is the sandbox's: runc itself refuses to mount there. It has no more rights than the
 * sandbox's root, so runc brings the file to where it can be reached.
 */
function coverBootID({ layout }: ContainerInput) {
  const script = 'mount --bind "$1" "$2" && umount "$1" && rm "$1"'
  const paths = [bootIDOnTheWay, bootIDPath].map((path) => join(layout.rootMount, path))
  return { path: '/bin/sh', args: ['sh', '-c', script, 'sh', ...paths], env: ['PATH=/usr/bin:/bin'] }
}

const bootIDOnTheWay = '/dev/.boot_id'
const bootIDPath = '/proc/sys/kernel/random/boot_id'

function bootIDFile(layout: Layout, { sandboxID }: SandboxRecord): string {
  return join(layout.sandbox(sandboxID), 'proc', bootIDName)
}

/** No device is allowed here: the runtimes add the usual few by themselves. */
function resources({ record, limitSwap, pidsLimit }: ContainerInput, gvisor: boolean) {
  const memory = record.memoryMB * 1024 * 1024
  return {
    memory: { limit: memory, ...(limitSwap && { swap: memory }) },
    cpu: cpuLimits(record),
    pids: { limit: gvisor ? hostPidsLimit(pidsLimit) : pidsLimit },
    devices: [{ allow: false, access: 'rwm' }],
  }
}

function cpuLimits({ cpuCount, cpus }: SandboxRecord) {
  return { period: 100_000, quota: cpuCount * 100_000, ...(cpus && { cpus }) }
}

function mounts({ layout, record, sysFolder }: ContainerInput, gvisor: boolean): Mount[] {
  const quiet = ['nosuid', 'noexec', 'nodev']
  const shm = `size=${Math.max(64, Math.floor(record.memoryMB / 2))}m`
  const bind = (source: string, destination: string, options = ['rbind', 'ro', ...quiet]): Mount => ({
    destination,
    type: 'bind',
    source,
    options,
  })
  const procFolder = join(layout.sandbox(record.sandboxID), 'proc')
  return [
    { destination: '/proc', type: 'proc', source: 'proc', options: quiet },
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
      options: ['nosuid', 'noexec', 'newinstance', 'ptmxmode=0666', 'mode=0620', 'gid=5'],
    },
    { destination: '/dev/shm', type: 'tmpfs', source: 'shm', options: [...quiet, 'mode=1777', shm] },
    { destination: '/dev/mqueue', type: 'mqueue', source: 'mqueue', options: quiet },
    gvisor
      ? { destination: '/sys', type: 'sysfs', source: 'sysfs', options: [...quiet, 'ro'] }
      : bind(sysFolder, '/sys'),
    bind(record.agentFolder, agentMount, ['rbind', 'ro', 'nosuid', 'nodev']),
    bind(bootIDFile(layout, record), gvisor ? bootIDPath : bootIDOnTheWay),
    ...(gvisor ? [] : shownProcFiles.map((name) => bind(join(procFolder, name), `/proc/${name}`))),
  ]
}
