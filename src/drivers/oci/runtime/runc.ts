/**
 * Plain containers: sandboxes share the host's kernel, behind namespaces, a system call filter and masked
 * files.
 */
import { join } from 'node:path'
import { bindMount, bootIDPath, ownBootID } from './container-spec.ts'
import type { RuntimeFlavour } from './runtime-flavour.ts'
import { seccompProfile } from './seccomp.ts'
import { shownProcFiles } from './shown-machine.ts'
import { systemPackages } from './system-tools.ts'

/**
 * Statistics and devices of the whole machine. Files that programs need are visible: uptime, versions,
 * settings.
 */
const maskedPaths = [
  '/proc/acpi',
  '/proc/asound',
  '/proc/buddyinfo',
  '/proc/bus',
  '/proc/cmdline',
  '/proc/config.gz',
  '/proc/consoles',
  '/proc/diskstats',
  '/proc/dma',
  '/proc/driver',
  '/proc/fs',
  '/proc/interrupts',
  '/proc/iomem',
  '/proc/ioports',
  '/proc/irq',
  '/proc/kallsyms',
  '/proc/kcore',
  '/proc/key-users',
  '/proc/keys',
  '/proc/kmsg',
  '/proc/kpagecgroup',
  '/proc/kpagecount',
  '/proc/kpageflags',
  '/proc/latency_stats',
  '/proc/locks',
  '/proc/mdstat',
  '/proc/modules',
  '/proc/mtrr',
  '/proc/pagetypeinfo',
  '/proc/partitions',
  '/proc/pressure',
  '/proc/sched_debug',
  '/proc/schedstat',
  '/proc/scsi',
  '/proc/slabinfo',
  '/proc/softirqs',
  '/proc/sys/fs/aio-nr',
  '/proc/sys/fs/dentry-state',
  '/proc/sys/fs/file-nr',
  '/proc/sys/fs/inode-nr',
  '/proc/sys/fs/inode-state',
  '/proc/sys/kernel/pty/nr',
  '/proc/timer_list',
  '/proc/timer_stats',
  '/proc/vmallocinfo',
  '/proc/vmstat',
  '/proc/zoneinfo',
  // Masked until the sandbox's own file is mounted over it: at no moment does a sandbox see the machine's
  // boot ID.
  bootIDPath,
]

const readonlyPaths = ['/proc/sys', '/proc/sysrq-trigger']

/** All terminals of a machine come from one pool. The kernel reserves a part of it for the host. */
const maxTerminals = 512

/** One of the few files of /proc over which runc mounts. It becomes visible again once the mount is moved. */
const passedBootID = '/proc/uptime'

export const runc: RuntimeFlavour = {
  runtime: 'runc',
  isolation: 'container',
  keepsMemory: false,
  hasPlatforms: false,
  coversEmptyTmp: false,
  showsOwnMachine: false,
  startsUnreadable: true,
  hasOwnUsers: true,
  // Setting limits in another user's namespace takes CAP_SYS_RESOURCE, which not every machine gives to root.
  inheritsLimits: true,
  hasOwnKernel: false,
  emptyNetworkName: undefined,
  // A session keyring per sandbox would exceed the per-user quota; the keyring calls are blocked anyway.
  runFlags: ['--no-new-keyring'],
  gpuFlags: () => [],
  movedMounts: [{ from: passedBootID, to: bootIDPath }],
  remedy: () => `Install it: ${systemPackages}`,
  globalFlags: () => [],
  ownMemoryMB: () => 0,
  memoryUsedBytes: ({ memoryUsedBytes }) => memoryUsedBytes,
  specParts: (input) => ({
    rlimits: [],
    devptsOptions: [`max=${maxTerminals}`],
    mounts: [
      bindMount(input.layout.sysMount, '/sys'),
      bindMount(ownBootID(input.layout), passedBootID),
      ...shownProcFiles.map((name) => bindMount(join(input.layout.procMount, name), `/proc/${name}`)),
    ],
    hostPidsLimit: input.pidsLimit,
    linux: { maskedPaths, readonlyPaths, seccomp: seccompProfile },
  }),
}
