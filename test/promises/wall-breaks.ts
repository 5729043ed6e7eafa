// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the edits are source text
/** Breaks of promises about what root inside reaches, and about what outlives a sandbox or a crash. */
import type { Break } from './break.ts'

const isolation = { file: 'src/drivers/oci/suite/isolation.ts', run: 'src/drivers/oci/oci-driver.test.ts' }
const limits = { file: 'src/drivers/oci/suite/limits.ts', run: 'src/drivers/oci/oci-driver.test.ts' }
const fullRoot = {
  file: 'src/drivers/oci/suite/full-root.ts',
  run: 'src/drivers/oci/oci-network.test.ts',
  isolation: 'gvisor' as const,
}
const containerSpec = 'src/drivers/oci/runtime/container-spec.ts'
const gvisor = 'src/drivers/oci/runtime/gvisor.ts'

export const wallBreaks: Break[] = [
  {
    name: 'users of the machine',
    fault: 'Users of a container are users of the machine.',
    edits: [
      {
        file: 'src/drivers/host/slot/own-users.ts',
        from: 'const firstRange = 2048',
        to: 'const firstRange = 1',
      },
      {
        file: 'src/drivers/host/slot/own-users.ts',
        from: '(firstRange + ((offset + slot) % ranges))',
        to: '(firstRange + ((offset * 0 + slot * 0) % ranges))',
      },
    ],
    ...isolation,
    title: 'root is nobody outside',
  },
  {
    name: 'files of the machine that stay open',
    fault: 'The first process of a container has a file of the machine.',
    edits: [
      {
        file: containerSpec,
        from: 'args: [...(flavour.startsUnreadable',
        to: "args: ['/bin/sh', '-c', 'exec 9</etc/hostname; exec \"$0\" \"$@\"', ...(flavour.startsUnreadable",
      },
    ],
    ...isolation,
    title: 'its first process holds no file of the host but the null device and its own socket',
  },
  {
    name: 'device of the machine',
    fault: "Containers have the device with the kernel's log.",
    edits: [
      {
        file: containerSpec,
        from: '  if (nodes.length === 0) return {}\n',
        to: "  if (nodes.length === 0)\n    return { devices: [{ path: '/dev/kmsg', type: 'c', major: 1, minor: 11, fileMode: 0o666, uid: 0, gid: 0 }] }\n",
      },
    ],
    ...isolation,
    title: 'no device of the host exists, and a device node that is made cannot be opened',
  },
  {
    name: 'root with every capability',
    fault: 'Root under gVisor has CAP_SYS_PTRACE.',
    edits: [
      {
        file: containerSpec,
        from: "'SYS_BOOT', 'SYS_MODULE',",
        to: "'SYS_BOOT', 'SYS_PTRACE', 'SYS_MODULE',",
      },
    ],
    ...isolation,
    isolation: 'gvisor',
    title: 'root has the allowed capabilities and cannot get more',
  },
  {
    name: 'agent that can be written',
    fault: "The agent's folder is mounted for writing.",
    edits: [
      {
        file: containerSpec,
        from: "bindMount(layout.kitMount, agentMount, ['rbind', 'ro', 'nosuid', 'nodev'])",
        to: "bindMount(layout.kitMount, agentMount, ['rbind', 'rw', 'nosuid', 'nodev'])",
      },
    ],
    ...isolation,
    isolation: 'gvisor',
    title: 'the agent’s folder is read-only, however it is mounted',
  },
  {
    name: 'data folder inside',
    fault: 'A sandbox sees the data folder of Warren.',
    edits: [
      {
        file: gvisor,
        from: '        bindMount(ownBootID(input.layout), bootIDPath),\n',
        to: '        bindMount(ownBootID(input.layout), bootIDPath),\n        bindMount(input.layout.data, input.layout.data),\n',
      },
    ],
    ...fullRoot,
    title: 'cannot mount a file system that the host would serve',
  },
  {
    name: 'frames of any making',
    fault: 'Root under gVisor sends raw frames.',
    edits: [
      {
        file: gvisor,
        from: "    '--net-raw',\n",
        to: "    '--net-raw',\n    '--allow-packet-socket-write',\n",
      },
    ],
    ...fullRoot,
    title: 'receives nothing at an address that it assigns to itself, and cannot send raw frames',
  },
  {
    name: 'memory that nobody counts',
    fault: 'Memory of a sandbox under gVisor counts as none.',
    edits: [
      {
        file: gvisor,
        from: 'memoryUsedBytes: ({ memorySharedBytes }) => memorySharedBytes,',
        to: 'memoryUsedBytes: ({ memorySharedBytes }) => Math.min(memorySharedBytes, 1 << 20),',
      },
    ],
    ...fullRoot,
    title: 'has a memory file system that it mounts counted as its memory',
  },
  {
    name: 'processes without a limit',
    fault: 'A container has as many processes as it likes.',
    edits: [
      {
        file: containerSpec,
        from: 'pids: { limit: hostPidsLimit }',
        to: 'pids: { limit: 8 * hostPidsLimit }',
      },
      {
        file: 'src/drivers/oci/lifecycle/run-runtime.ts',
        from: 'processCountLimit(pidsLimit - Math.ceil(pidsLimit / 8))',
        to: 'processCountLimit(8 * pidsLimit)',
      },
    ],
    ...limits,
    title: 'a fork bomb gets errors and the sandbox lives on',
  },
  {
    name: 'all CPUs',
    fault: 'A container runs on all CPUs of the machine.',
    edits: [{ file: containerSpec, from: '...(cpus && { cpus }), ', to: '...(cpus && {}), ' }],
    ...limits,
    title: 'it runs on as many CPUs as it was given and on no others',
  },
  {
    name: 'connections of the sandbox before',
    fault: 'Connections of a sandbox stay when its address goes to the next.',
    edits: [
      {
        file: 'src/drivers/host/slot/slots.ts',
        from: '  await forgetFlows()\n',
        to: '  if (number < 0) await forgetFlows()\n',
      },
    ],
    file: 'src/drivers/oci/suite/slot-reuse.ts',
    run: 'src/drivers/oci/oci-network.test.ts',
    title: 'sees no file, block, memory, message, socket, datagram or rule of the sandbox before it',
  },
  {
    name: 'snapshots beside the data folder',
    fault: 'The memory of a snapshot lies in a folder that a reboot clears.',
    edits: [
      {
        file: 'src/drivers/oci/snapshot/take-snapshot.ts',
        from: '...(gpuBytes !== undefined && { gpuBytes }) }, options.lasting)\n',
        to: `...(gpuBytes !== undefined && { gpuBytes }) }, options.lasting)
    const lost = join(context.layout.run, \`memory-\${Date.now()}\`)
    await runCommand('sh', ['-c', 'mv "$0" "$1" && ln -s "$1" "$0"', join(folder, memoryName), lost])\n`,
      },
    ],
    file: 'src/drivers/oci/suite/snapshot.ts',
    run: 'src/drivers/oci/oci-snapshot.test.ts',
    isolation: 'gvisor',
    title: 'can be restored after everything but the data folder was lost',
  },
  {
    name: 'GPUs for everybody',
    fault: 'A sandbox gets a GPU without asking for one.',
    edits: [
      {
        file: 'src/drivers/oci/lifecycle/launch.ts',
        from: 'gpuCount = 0 } = plan?.sizeFor(wanted) ?? wanted',
        to: 'gpuCount = 1 } = plan?.sizeFor(wanted) ?? wanted',
      },
    ],
    file: 'src/drivers/oci/suite/gpu.ts',
    run: 'src/drivers/oci/oci-gpu.test.ts',
    title: 'are not in a sandbox that did not ask for one',
  },
  {
    name: 'debugger of the agent',
    fault: "A signal opens the debugger of the agent's Node.",
    edits: [
      {
        file: 'src/agent/node-flags.ts',
        from: "  '--disable-sigusr1',\n",
        to: '',
      },
      {
        file: 'src/agent/services.ts',
        from: "if (!process.listeners('SIGUSR1').includes(ignore)) process.on('SIGUSR1', ignore)",
        to: "if (process.listeners('SIGUSR1').includes(ignore)) process.on('SIGUSR1', ignore)",
      },
    ],
    file: 'test/security/agent-takeover.test.ts',
    title: 'opens no debugger by a signal, and the agent keeps working',
  },
  {
    name: 'port of the agent for others',
    fault: "Programs under gVisor take over the agent's port on one address.",
    edits: [
      {
        file: 'src/agent/listen.ts',
        from: 'listenDirectly(server, port, isGvisor() ? tryBind(port, addonPath) : undefined)',
        to: 'listenDirectly(server, port, isGvisor() && port < 0 ? tryBind(port, addonPath) : undefined)',
      },
    ],
    file: 'test/security/agent-takeover.test.ts',
    isolation: 'gvisor',
    title: "binds the agent's port on no address, as …",
  },
  {
    name: 'libraries of the image',
    fault: "The agent's loader reads settings of the image.",
    edits: [
      {
        file: 'src/app/agent-kit/agent-kit.ts',
        from: '      replaceForeignPaths(program)\n',
        to: '      if (name === path) replaceForeignPaths(program)\n',
      },
      // A kit that an unchanged Warren has built would be used again.
      {
        file: 'src/app/agent-kit/agent-kit.ts',
        from: 'const layoutVersion = 7\n',
        to: 'const layoutVersion = 7000\n',
      },
    ],
    file: 'test/security/agent-takeover.test.ts',
    title: 'do not make the agent load anything, and it answers as before',
  },
  {
    name: 'agent that ends unseen',
    fault: 'The log of a sandbox does not say that its agent was ended.',
    edits: [
      {
        file: 'src/drivers/host/process/explain-exit.ts',
        from: '    const detail = `Its ${who} was ended by ${nameOf(signal)}.`\n',
        to: "    const detail = 'It ended.' + (who && nameOf(0).slice(0, 0))\n",
      },
    ],
    file: 'test/e2e/logs.test.ts',
    title: 'contain the end of a sandbox whose agent was killed inside, and its streams break at once',
  },
  {
    name: 'floods that go on',
    fault: 'A service sends interim answers without end, and the server carries them all.',
    edits: [
      {
        file: 'src/lib/http-relay/interim-answers.ts',
        from: 'const maxAnswers = 100',
        to: 'const maxAnswers = 2 ** 40',
      },
      {
        file: 'src/lib/http-relay/interim-answers.ts',
        from: 'const maxBytes = 64 * 1024',
        to: 'const maxBytes = 2 ** 40',
      },
    ],
    file: 'test/security/hostile-services.test.ts',
    title: 'of a service end its own exchanges: memory is bounded, and others are served',
  },
  {
    name: 'heads of any size',
    fault: 'The edge reads sixteen times as much of a head as it says.',
    edits: [
      {
        file: 'src/lib/http-relay/http-relay.ts',
        from: 'const maxHeaderBytes = 64 * 1024',
        to: 'const maxHeaderBytes = 1024 * 1024',
      },
    ],
    file: 'src/edge/hostile-service.test.ts',
    title: 'is cut off if its headers, its trailers or a chunk are endless',
  },
  {
    name: 'weaker without a word',
    fault: 'Warren falls back to containers without a warning.',
    edits: [
      {
        file: 'src/app/isolation/choose-isolation.ts',
        from: 'return refused.length === 0',
        to: 'return refused.length < 9',
      },
    ],
    file: 'test/e2e/weaker-isolation.test.ts',
    title: 'the start continues with containers, and ends with a warning that has the reason and the remedy',
  },
  {
    name: 'passwords of proxies',
    fault: 'The database has the password of a proxy in plain text too.',
    edits: [
      {
        file: 'src/store/sandbox/sandbox-options.ts',
        from: 'options: JSON.stringify({ ...options, network: open }),',
        to: 'options: JSON.stringify({ ...options, network: open, copy: options.network }),',
      },
    ],
    file: 'test/e2e/egress-gate.test.ts',
    title: 'hide the password of a proxy and the values of headers from everybody else',
  },
  {
    name: 'passwords of registries',
    fault: 'The login for a registry goes to the server to which it redirects.',
    edits: [
      {
        file: 'src/images/registry-client.ts',
        from: '        isSame && this.#authorization ? { Authorization: this.#authorization } : {}\n',
        to: '        (isSame || redirects > 0) && this.#authorization ? { Authorization: this.#authorization } : {}\n',
      },
    ],
    file: 'test/security/template-builds.test.ts',
    title: 'a registry is asked only where the operator allows it, and its password goes nowhere else',
  },
  {
    name: 'variables of the sandbox before',
    fault: 'A sandbox from a snapshot has the variables of the sandbox that was snapshotted.',
    edits: [
      {
        file: 'src/agent/identity.ts',
        from: 'if (request.envVars) this.envVars = { ...request.envVars }',
        to: 'if (request.envVars) this.envVars = { ...this.envVars, ...request.envVars }',
      },
    ],
    file: 'test/security/leaked-variables.test.ts',
    isolation: 'gvisor',
    title: 'are not in sandboxes that a stranger starts from a public template of it',
  },
  {
    name: 'crashes that lose sandboxes',
    fault: 'The next Warren ends the sandboxes that it finds running.',
    edits: [
      {
        file: 'src/core/sandbox/reconciler.ts',
        from: "if (there !== 'gone') return this.#keepRunning(row, there)",
        to: "if (there !== 'gone' && this.#parts.launcher.isOpen(row)) return this.#keepRunning(row, there)",
      },
    ],
    file: 'test/e2e/survival.test.ts',
    title: 'of … crashes in the middle of each verb',
  },
  {
    name: 'block without a test',
    fault: 'README shows a command that nobody runs.',
    edits: [
      {
        file: 'README.md',
        from: '## What we promise\n',
        to: '```sh\nbin/warren start\n```\n\n## What we promise\n',
      },
    ],
    file: 'test/e2e/documentation.test.ts',
    title: 'every block of code in the documentation is run, or has a reason why not',
  },
  {
    name: 'disk that fills',
    fault: 'Nobody looks whether the disk runs full.',
    edits: [
      {
        file: 'src/app/start/serve.ts',
        from: 'guards: [domain.diskGuard, domain.memoryGuard]',
        to: 'guards: [domain.memoryGuard]',
      },
    ],
    file: 'test/security/full-disk.test.ts',
    title: 'a sandbox that writes without end is frozen, its log has the reason, and all others keep running',
  },
  {
    name: 'memory that is used up',
    fault: 'Nobody looks whether memory runs out.',
    edits: [
      {
        file: 'src/app/start/serve.ts',
        from: 'guards: [domain.diskGuard, domain.memoryGuard]',
        to: 'guards: [domain.diskGuard]',
      },
    ],
    file: 'test/security/used-up-memory.test.ts',
    title:
      'sandboxes that grow without end are frozen before the kernel kills one, and all others keep running',
  },
]
