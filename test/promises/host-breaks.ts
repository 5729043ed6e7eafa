// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the edits are source text
/** Breaks of what other users of the machine must not be able to do. */
import type { Break } from './break.ts'

const host = { file: 'test/security/promises/host.test.ts', isolation: 'gvisor' as const }

export const hostBreaks: Break[] = [
  {
    name: 'groups that outlive their sandbox',
    fault: 'The group of the processes of a sandbox stays when the sandbox ends.',
    edits: [
      {
        file: 'src/drivers/oci/lifecycle/dismantle.ts',
        from: '      cgroups.remove(layout.cgroup(sandboxID)),\n',
        to: '',
      },
    ],
    file: 'test/security/promises/host-lives.test.ts',
    title: 'is as it was after … random lives and kills of Warren',
  },
  {
    name: 'data folder that everybody may pass',
    fault: 'Other users of the machine may pass through the data folder.',
    edits: [
      {
        file: 'src/app/data/data-folder.ts',
        from: 'await chmod(folder, 0o700)',
        to: 'await chmod(folder, 0o711)',
      },
    ],
    ...host,
    title: 'cannot read, change or run a file of the data folder',
  },
  {
    name: 'files of sandboxes that everybody may read',
    fault: 'What sandboxes show in /proc lies open in /run.',
    edits: [
      {
        file: 'src/drivers/oci/machine/machine-setup.ts',
        from: 'const closed = 0o700',
        to: 'const closed = 0o755',
      },
    ],
    ...host,
    title: 'can go through no folder or mount of /run but empty mount points',
  },
  {
    name: 'sandboxes that every user of the machine reaches',
    fault: 'Other users of the machine connect to sandboxes past the port.',
    edits: [
      {
        file: 'src/drivers/host/network/ruleset.ts',
        from: '    ct state new meta skuid != 0 jump refused\n',
        to: '',
      },
    ],
    ...host,
    title: 'reach no socket but the one port, neither of Warren nor of its sandboxes',
  },
  {
    name: 'key on an output that is a file',
    fault: 'The first key is printed where others can read it.',
    edits: [
      {
        file: 'src/app/start/start.ts',
        from: 'process.stdout.isTTY ? banner : serviceLine',
        to: 'process.stdout.isTTY ? serviceLine : banner',
      },
    ],
    ...host,
    title: 'see no secret in any process, and enter or end none',
  },
  {
    name: 'groups that everybody may change',
    fault: 'Other users of the machine change the share of a sandbox.',
    edits: [
      {
        file: 'src/drivers/oci/oci-driver.ts',
        from: '    this.#remains.noteStart()\n    return handleOf(record)\n',
        to: '    await this.#context.cgroups.restoreShares(this.#context.layout.cgroup(record.sandboxID))\n    return handleOf(record)\n',
      },
      {
        file: 'src/drivers/host/process/cgroups.ts',
        from: "import { existsSync, readFileSync, writeFileSync } from 'node:fs'",
        to: "import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'",
      },
      {
        file: 'src/drivers/host/process/cgroups.ts',
        from: "    writeFileSync(file('cpu', group, unified ? 'cpu.weight' : 'cpu.shares'), unified ? '100' : '1024')\n",
        to: "    chmodSync(file('cpu', group, unified ? 'cpu.weight' : 'cpu.shares'), 0o666)\n",
      },
    ],
    ...host,
    title: 'open no loop device of its disks, and change no group of its processes',
  },
  {
    name: 'folders that an earlier release left open',
    fault: 'A start closes nothing that an earlier release left open in /run.',
    edits: [
      {
        file: 'src/drivers/oci/machine/machine-setup.ts',
        from: '    await chmod(folder, closed)\n',
        to: '',
      },
    ],
    ...host,
    title: 'find closed what an earlier release left open, and its sandboxes live on',
  },
]
