/** Plain containers: sandboxes share the host's kernel, behind namespaces, a system call filter and covered files. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { bindMount, bootIDFile, bootIDPath } from './container-spec.ts'
import { systemPackages } from './probe.ts'
import type { ContainerInput, Hook, RuntimeFlavour } from './runtime-flavour.ts'
import { seccompProfile } from './seccomp.ts'
import { shownProcFiles } from './shown-machine.ts'

/** Figures and devices of the whole machine. What programs cannot do without is shown: uptime, versions, settings. */
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
]

const readonlyPaths = ['/proc/sys', '/proc/sysrq-trigger']

/** Terminals come out of one pool of the machine, of which the kernel keeps a part for the host. */
const mostTerminals = 512

export const runc: RuntimeFlavour = {
  runtime: 'runc',
  isolation: 'container',
  keepsMemory: false,
  hasPlatforms: false,
  coversEmptyTmp: false,
  showsOwnMachine: false,
  startsUnreadable: true,
  hasOwnUsers: true,
  // To set limits in another user's namespace takes CAP_SYS_RESOURCE, which not every machine gives to root.
  inheritsLimits: true,
  emptyNetworkName: undefined,
  // A session keyring per sandbox would run into the per-user quota; the keyring calls are closed anyway.
  runFlags: ['--no-new-keyring'],
  remedy: () => `Install it: ${systemPackages}`,
  globalFlags: () => [],
  ownMemoryMB: () => 0,
  memoryUsedBytes: ({ memoryUsedBytes }) => memoryUsedBytes,
  specParts: (input) => ({
    rlimits: [],
    devptsOptions: [`max=${mostTerminals}`],
    mounts: [
      bindMount(input.sysFolder, '/sys'),
      bindMount(bootIDFile(input), passedBootID),
      ...shownProcFiles.map((name) =>
        bindMount(join(input.layout.shownProc(input.record.sandboxID), name), `/proc/${name}`),
      ),
    ],
    hooks: { createContainer: [coverBootID(input)] },
    hostPidsLimit: input.pidsLimit,
    linux: { maskedPaths, readonlyPaths, seccomp: seccompProfile },
  }),
}

/** Where runc puts the file for the hook, which moves it to its place: what is there otherwise is seen again then. */
const passedBootID = '/proc/uptime'

/** One program, and by its path: `sh` and a search for it would take as long again, in every start. */
const mountProgram = ['/usr/bin/mount', '/bin/mount'].find((path) => existsSync(path)) ?? '/bin/mount'

/**
 * runc itself does not mount over this path, so a hook does. It runs inside the sandbox's namespaces with no more
 * rights than the sandbox's root, before the root is the sandbox's.
 */
function coverBootID({ layout }: ContainerInput): Hook {
  const paths = [passedBootID, bootIDPath].map((path) => join(layout.rootMount, path))
  return { path: mountProgram, args: ['mount', '--no-mtab', '--move', ...paths], env: [] }
}
