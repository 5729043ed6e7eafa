/** gVisor: every sandbox has its own kernel, a process of the host that runsc starts. */
import { bindMount, bootIDPath, ownBootID, processCountLimit, quietMount } from './container-spec.ts'
import { gvisorMemoryMB, gvisorPidsLimits, machinePids } from './gvisor-limits.ts'
import type { RuntimeFlavour } from './runtime-flavour.ts'

export const gvisor: RuntimeFlavour = {
  runtime: 'runsc',
  isolation: 'gvisor',
  keepsMemory: true,
  hasPlatforms: true,
  coversEmptyTmp: true,
  showsOwnMachine: true,
  startsUnreadable: false,
  // Its processes belong to gVisor, which counts for them; and memory is restored only under the ID mapping
  // of its snapshot.
  hasOwnUsers: false,
  inheritsLimits: false,
  hasOwnKernel: true,
  emptyNetworkName: 'null-netns',
  runFlags: [],
  // Only these pass calls on to the driver of the machine's GPU.
  gpuFlags: (borrowedInterface) => [
    ...['--nvproxy=true', '--nvproxy-allowed-driver-capabilities=compute,utility'],
    ...(borrowedInterface === undefined ? [] : [`--nvproxy-driver-version=${borrowedInterface}`]),
  ],
  movedMounts: [],
  remedy: (binary) => `Put gVisor's runsc at ${binary}.`,
  globalFlags: (platform) => [
    `--platform=${platform ?? 'systrap'}`,
    '--network=sandbox',
    // Writes must go to our overlay, where the disk limit applies and a snapshot finds them.
    '--overlay2=none',
    '--allow-suid',
    // For ping. Whatever leaves with another sender's address is dropped by the host's rules.
    '--net-raw',
    '--host-uds=none',
    // Disables advice for operators on settings of the machine, which is computed again at every start.
    '--host-settings=ignore',
  ],
  ownMemoryMB: gvisorMemoryMB,
  // The memory of the sandbox's processes is one shared file; the rest is gVisor's own.
  memoryUsedBytes: ({ memorySharedBytes }) => memorySharedBytes,
  specParts: (input) => {
    const { perUser, host } = gvisorPidsLimits({ ...input.record, pidsLimit: input.pidsLimit }, machinePids())
    return {
      rlimits: [processCountLimit(perUser)],
      devptsOptions: [],
      mounts: [
        { destination: '/sys', type: 'sysfs', source: 'sysfs', options: [...quietMount, 'ro'] },
        bindMount(ownBootID(input.layout), bootIDPath),
      ],
      hostPidsLimit: host,
      // No masked paths instead of an empty list: gVisor's checkpoints drop empty lists, and the restore then
      // fails.
      linux: {},
    }
  },
}
