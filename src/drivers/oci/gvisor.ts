/** gVisor: every sandbox has a kernel of its own, a process of the host that runsc starts. */
import { readFileSync } from 'node:fs'
import { bindMount, bootIDFile, bootIDPath, type ContainerInput, quietMount } from './container-spec.ts'
import type { RuntimeFlavour } from './runtime-flavour.ts'

export const gvisor: RuntimeFlavour = {
  runtime: 'runsc',
  isolation: 'gvisor',
  keepsMemory: true,
  hasPlatforms: true,
  coversEmptyTmp: true,
  showsOwnMachine: true,
  startsUnreadable: false,
  // Its processes are gVisor's, which counts for them; and memory is read back only under the mapping it was saved with.
  hasOwnUsers: false,
  inheritsLimits: false,
  runFlags: [],
  remedy: (binary) => `Put gVisor's runsc at ${binary}.`,
  globalFlags: (platform) => [
    `--platform=${platform ?? 'systrap'}`,
    '--network=sandbox',
    // What is written must lie in our overlay, where the disk limit holds and a checkpoint finds it.
    '--overlay2=none',
    '--allow-suid',
    '--host-uds=none',
  ],
  ownMemoryMB: (memoryMB) => Math.max(128, Math.ceil(memoryMB / 4)),
  // The memory of the sandbox's processes is one shared file; the rest is gVisor's own.
  memoryUsedBytes: ({ memorySharedBytes }) => memorySharedBytes,
  specParts: (input) => ({
    rlimits: [guestPidsLimit(input.pidsLimit)],
    devptsOptions: [],
    mounts: [
      { destination: '/sys', type: 'sysfs', source: 'sysfs', options: [...quietMount, 'ro'] },
      bindMount(bootIDFile(input), bootIDPath),
    ],
    hostPidsLimit: hostPidsLimit(input),
    // No masked paths rather than an empty list of them: gVisor's checkpoints forget empty lists and then miss them.
    linux: {},
  }),
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

function hostPidsLimit({ pidsLimit }: ContainerInput): number {
  const machine = Number(readFileSync('/proc/sys/kernel/pid_max', 'utf8'))
  return Math.min(pidsLimit * 8, Math.floor(machine / 4))
}
