// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the edits are source text
/** Breaks of promises whose tests use the driver with real sandboxes: walls, limits and networks. */
import type { Break } from './break.ts'

const network = { file: 'src/drivers/oci/suite/network.ts', run: 'src/drivers/oci/oci-network.test.ts' }
const isolation = { file: 'src/drivers/oci/suite/isolation.ts', run: 'src/drivers/oci/oci-driver.test.ts' }
const limits = { file: 'src/drivers/oci/suite/limits.ts', run: 'src/drivers/oci/oci-driver.test.ts' }
const flowShares = 'src/drivers/host/network/flow-shares.ts'
const ruleset = 'src/drivers/host/network/ruleset.ts'
const slotNetwork = 'src/drivers/host/namespace/slot-network.ts'
const unboundSender = {
  file: ruleset,
  from: '    ip saddr != ${subnet.cidr} drop\n    fib saddr . iif oif missing drop\n',
  to: '',
}
const wholeNetwork = {
  file: slotNetwork,
  from: 'addAddress(routes, gatewayOn(task, hostPrefixBits), create | exclusive)',
  to: 'addAddress(routes, gatewayOn(task, prefixBits), create | exclusive)',
}
const wire = {
  file: 'test/security/promises/wire.test.ts',
  isolation: 'gvisor' as const,
  title: 'carries only what the policy allows, and only from the sandbox’s own address',
}
const ownAddress = { file: 'src/drivers/oci/suite/own-address.ts', run: network.run }

const gpuMemory = {
  edits: [
    {
      file: 'src/drivers/oci/runtime/runtime-commands.ts',
      from: '    ...(record.gpus ? [gpuCheckpointFlag, checkpointProgram] : []),\n',
      to: '',
    },
  ],
  file: 'src/drivers/oci/suite/gpu-memory.ts',
  run: 'src/drivers/oci/oci-gpu.test.ts',
  isolation: 'gvisor' as const,
}

export const sandboxBreaks: Break[] = [
  {
    name: 'sandboxes that reach each other',
    fault: 'Packets pass from one sandbox to another.',
    edits: [
      { file: ruleset, from: '    oifname ${ours} jump refused\n', to: '' },
      {
        file: ruleset,
        from: '    ip daddr @closed ip daddr != @opened jump closed-range\n',
        to: '    ip daddr @closed ip daddr != ${subnet.cidr} ip daddr != @opened jump closed-range\n',
      },
      {
        file: ruleset,
        from: '    ct state != established drop\n',
        to: '    iifname != ${ours} ct state != established drop\n',
      },
    ],
    ...network,
    title: 'sandboxes do not reach each other',
  },
  {
    name: 'sandboxes that reach the machine',
    fault: 'The services of the machine answer sandboxes.',
    edits: [
      {
        file: ruleset,
        from: '    jump refused\n  }\n  chain from-host',
        to: '    accept\n  }\n  chain from-host',
      },
    ],
    ...network,
    title: 'the host answers on none of its addresses',
  },
  {
    name: 'sandboxes that reach private networks',
    fault: 'Private ranges and the metadata address of the cloud are open.',
    edits: [{ file: ruleset, from: '    ip daddr @closed ip daddr != @opened jump closed-range\n', to: '' }],
    ...network,
    title: 'private, link-local, shared and reserved ranges are closed, whatever routes the host has',
  },
  {
    name: 'forged senders',
    fault: 'Packets leave a sandbox with any sender.',
    edits: [unboundSender],
    ...network,
    title: 'packets with another sender’s address go nowhere',
  },
  {
    name: 'forged senders under gVisor',
    fault: 'Root under gVisor sends packets in the name of others.',
    edits: [unboundSender],
    file: 'src/drivers/oci/suite/full-root.ts',
    run: network.run,
    isolation: 'gvisor',
    title: 'pings, and sends packets with no address but its own',
  },
  {
    name: 'other addresses of a link',
    fault:
      'The host routes the whole network of a slot to its sandbox, so that root there has four addresses.',
    edits: [wholeNetwork],
    ...ownAddress,
    title: 'is the only sender of packets that leave, whatever other addresses root gives to its link',
  },
  {
    name: 'other addresses on the wire',
    fault: 'The host routes the whole network of a slot to its sandbox.',
    edits: [wholeNetwork],
    ...wire,
  },
  {
    name: 'links of an earlier release',
    fault: 'Sandboxes that an earlier release started keep four addresses.',
    edits: [
      {
        file: slotNetwork,
        from: 'routes.ask(`older address of ${task.link}`',
        to: "if (task.link === '') routes.ask(`none`",
      },
    ],
    ...ownAddress,
    title: 'is the only sender too of a sandbox that an earlier release started',
  },
  {
    name: 'senders that fill the table of neighbours',
    fault: 'The machine remembers every sender that asks for a gateway.',
    edits: [{ file: slotNetwork, from: "'ipv4/arp_filter': 1", to: "'ipv4/arp_filter': 0" }],
    ...ownAddress,
    title: 'is the only one that the host answers and remembers on its link, whoever asks for the gateway',
  },
  {
    name: 'closed connections that stay',
    fault: 'The kernel remembers connections that a sandbox closed for minutes.',
    edits: [{ file: ruleset, from: 'time_wait : 10, close : 5', to: 'close : 10' }],
    file: 'src/drivers/oci/suite/flows.ts',
    run: network.run,
    title: 'are remembered for seconds after they were closed, so that short ones do not fill the table',
  },
  {
    name: 'connections of ended sandboxes',
    fault: 'The connections of an ended sandbox stay in the table of the machine.',
    edits: [
      { file: 'src/drivers/host/slot/slots.ts', from: '  await forgetFlows()\n', to: '  void forgetFlows\n' },
    ],
    file: 'src/drivers/oci/suite/flows.ts',
    run: network.run,
    isolation: 'gvisor',
    title: 'are gone from the machine’s table, those that it opened and those to it',
  },
  {
    name: 'raw packets into private networks',
    fault: 'The rules for closed ranges meet connections only, and no packets that root makes itself.',
    edits: [
      {
        file: ruleset,
        from: '    ip daddr @closed ip daddr != @opened jump closed-range\n',
        to: '    meta l4proto tcp ip daddr @closed ip daddr != @opened jump closed-range\n',
      },
    ],
    file: 'src/drivers/oci/suite/full-root.ts',
    run: network.run,
    isolation: 'gvisor',
    title: 'reaches no closed range and no neighbour by packets of its own making',
  },
  {
    name: 'doors from outside',
    fault: 'Whoever has a route to a sandbox opens connections to it, past the edge.',
    edits: [{ file: ruleset, from: '    ct state != established drop\n', to: '' }],
    ...network,
    title: 'nobody outside can open a connection to a sandbox',
  },
  {
    name: 'connections without a share',
    fault: 'One sandbox fills the table of connections of the machine.',
    edits: [
      {
        file: flowShares,
        from: '${inParts(shares.perSandbox)} } drop',
        to: 'ct id & 0 ct count over 4000000 } drop',
      },
    ],
    file: 'src/drivers/oci/suite/flows.ts',
    run: network.run,
    title: 'stop at its share, and a neighbour can open its own meanwhile',
  },
  {
    name: 'connections without a share of the team',
    fault: 'The sandboxes of one team fill the table of connections of the machine.',
    edits: [
      {
        file: flowShares,
        from: '${inParts(shares.perOwner)} } drop',
        to: 'ct id & 0 ct count over 4000000 } drop',
      },
    ],
    file: 'src/drivers/oci/suite/flows.ts',
    run: network.run,
    title:
      'stop together at the share of their owner, and at that of all; another owner’s new sandbox opens its own',
  },
  {
    name: 'connections without a rest for the machine',
    fault: 'Several teams fill the table of connections of the machine.',
    edits: [
      {
        file: flowShares,
        from: '${inParts(shares.all)} } drop',
        to: 'ct id & 0 ct count over 4000000 } drop',
      },
    ],
    file: 'src/drivers/oci/suite/flows.ts',
    run: network.run,
    title:
      'stop together at the share of their owner, and at that of all; another owner’s new sandbox opens its own',
  },
  {
    name: 'policy that denies nothing',
    fault: 'The addresses that a policy denies are open.',
    edits: [{ file: ruleset, from: '    ip saddr . ip daddr @denied jump refused\n', to: '' }],
    file: 'src/drivers/oci/suite/egress.ts',
    run: network.run,
    title: 'reaches no denied address or range, and reaches all others',
  },
  {
    name: 'shared namespaces',
    fault: 'A container shares a namespace with the machine.',
    edits: [
      { file: 'src/drivers/oci/runtime/container-spec.ts', from: "        { type: 'cgroup' },\n", to: '' },
    ],
    ...isolation,
    title: 'its namespaces are its own, and under gVisor its kernel too',
  },
  {
    name: 'any system call',
    fault: 'Containers may make every system call.',
    edits: [{ file: 'src/drivers/oci/runtime/runc.ts', from: ', seccomp: seccompProfile }', to: ' }' }],
    ...isolation,
    title: 'system calls that reach for the host’s kernel are rejected',
  },
  {
    name: 'figures of the machine',
    fault: 'Containers read figures of the whole machine.',
    edits: [
      {
        file: 'src/drivers/oci/runtime/runc.ts',
        from: 'linux: { maskedPaths,',
        to: 'linux: { maskedPaths: [bootIDPath],',
      },
    ],
    ...isolation,
    title: 'figures of the whole machine are not shown',
  },
  {
    name: 'paths of the machine',
    fault: 'The mounts of a container show where the agent lies on the machine.',
    edits: [
      {
        file: 'src/drivers/oci/lifecycle/shown-folders.ts',
        from: 'showsOwnMachine ? agentFolder : layout.agentMount(agentFolder)',
        to: 'agentFolder',
      },
    ],
    ...isolation,
    title: 'its mounts show no path of the host',
  },
  {
    name: 'variables of the agent',
    fault: 'The agent starts with variables that steer Node.',
    edits: [
      {
        file: 'src/drivers/oci/runtime/container-spec.ts',
        from: "/usr/bin:/sbin:/bin', ...agent.env }",
        to: "/usr/bin:/sbin:/bin', NODE_OPTIONS: '--no-warnings', ...agent.env }",
      },
    ],
    ...isolation,
    title: 'the environment of the first process holds nothing of the server’s',
  },
  {
    name: 'limits that root raises',
    fault: 'Root under gVisor may raise limits.',
    edits: [
      {
        file: 'src/drivers/oci/runtime/container-spec.ts',
        from: "'SYS_RAWIO', 'SYS_TIME',",
        to: "'SYS_RAWIO', 'SYS_RESOURCE', 'SYS_TIME',",
      },
    ],
    ...limits,
    isolation: 'gvisor',
    title: 'limits cannot be raised from inside',
  },
  {
    name: 'disk without a limit',
    fault: 'A sandbox writes more than its disk has.',
    edits: [
      {
        file: 'src/drivers/host/disk/disks.ts',
        from: 'image, `${sizeMB}M`])',
        to: 'image, `${8 * sizeMB}M`])',
      },
    ],
    ...limits,
    title: 'a full disk returns an error in every folder, and works again after files are removed',
  },
  {
    name: 'memory without a limit',
    fault: 'A container takes more memory than it may.',
    edits: [
      {
        file: 'src/drivers/oci/runtime/container-spec.ts',
        from: 'const memory = record.memoryMB * 1024 * 1024',
        to: 'const memory = 8 * record.memoryMB * 1024 * 1024',
      },
    ],
    ...limits,
    title: 'a process that takes too much memory dies, and the sandbox lives on',
  },
  {
    name: 'users of all containers',
    fault:
      'All containers have the same user ids, so that one takes what the kernel counts per user from the others.',
    edits: [
      { file: 'src/drivers/oci/runtime/runc.ts', from: '  hasOwnUsers: true,', to: '  hasOwnUsers: false,' },
    ],
    file: 'src/drivers/oci/suite/kernel-resources.ts',
    run: 'src/drivers/oci/oci-kernel.test.ts',
    title: 'a sandbox that takes all … it can get leaves a neighbour and the host theirs',
  },
  {
    name: 'pauses without GPU memory',
    fault: 'A snapshot does not contain the memory of the GPU.',
    ...gpuMemory,
    title:
      'moves to the host before a snapshot and back after it, and the sandbox gets its old memory limit back',
  },
  {
    name: 'forks without GPU memory',
    fault: 'A fork starts without the memory of the GPU.',
    ...gpuMemory,
    title: 'moves back in every sandbox that starts from the snapshot, before the start returns',
  },
]
