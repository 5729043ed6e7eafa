/** Breaks of promises whose tests use a whole Warren, as a client or a neighbour sees it. */
import type { Break } from './break.ts'

export const clientBreaks: Break[] = [
  {
    name: 'open to the network',
    fault: 'Warren listens on all addresses of the machine.',
    edits: [
      {
        file: 'src/app/doors/http-server.ts',
        from: '    server.listen({ host, port }, resolve)',
        to: "    server.listen({ host: '0.0.0.0', port }, resolve)",
      },
    ],
    file: 'test/e2e/one-machine.test.ts',
    title: 'only the one port can be reached, on the configured address',
  },
  {
    name: 'PostgreSQL that is not used',
    fault: 'Warren keeps its rows in SQLite although the setting names a PostgreSQL.',
    edits: [
      {
        file: 'src/store/open-stores.ts',
        from: 'dialect: audited(await dialectFor(options, limit))',
        to: 'dialect: audited(await dialectFor({ ...options, url: undefined }, limit))',
      },
    ],
    file: 'test/e2e/one-machine.test.ts',
    title: 'PostgreSQL works as well as SQLite',
  },
  {
    name: 'secret with a default',
    fault: 'Every Warren has the same admin token.',
    edits: [
      {
        file: 'src/app/data/data-folder.ts',
        from: 'adminToken: randomHex(32) }',
        to: "adminToken: '0'.repeat(64) }",
      },
    ],
    file: 'test/e2e/one-machine.test.ts',
    title:
      'two Warrens run side by side: no key of one opens the other, and their sandboxes cannot reach each other',
  },
  {
    name: 'any key',
    fault: 'A request with a wrong key acts for the first team.',
    edits: [
      {
        file: 'src/api/auth.ts',
        from: '    if (key !== undefined) return teams.authenticate(key, address)\n',
        to: `    if (key !== undefined)
      return teams.authenticate(key, address).catch(async () => {
        const [team] = await teams.listTeams()
        const credential = { kind: 'admin token', id: null, expiresAt: null } as const
        return { team: team!, role: 'owner', person: null, credential }
      })\n`,
      },
    ],
    file: 'test/security/tenancy.test.ts',
    title: 'no key, a wrong one, an empty one and a malformed one all get 401 and no hint',
  },
  {
    name: 'team without a limit',
    fault: 'A team starts as many sandboxes as it likes.',
    edits: [
      {
        file: 'src/store/usage/limits.ts',
        from: 'if (used.sandboxes + 1 > limits.maxSandboxes)',
        to: 'if (used.sandboxes > limits.maxSandboxes * 1000)',
      },
    ],
    file: 'test/e2e/bad-input.test.ts',
    title: 'parallel creates cannot exceed the limit of the team together',
  },
  {
    name: 'agent without a token',
    fault: 'The agent of a sandbox answers everybody.',
    edits: [
      {
        file: 'src/agent/access.ts',
        from: 'if (!identity.wantsToken || identity.tokenMatches(tokenOf(request))) return',
        to: 'if (!identity.wantsToken || identity !== undefined || tokenOf(request)) return',
      },
    ],
    file: 'test/security/agent.test.ts',
    title: 'gets nothing without a token, with a wrong one, or with that of another sandbox',
  },
  {
    name: 'traced agent',
    fault: 'Root under gVisor traces the agent.',
    edits: [
      {
        file: 'src/drivers/oci/runtime/container-spec.ts',
        from: "'SYS_BOOT', 'SYS_MODULE',",
        to: "'SYS_BOOT', 'SYS_PTRACE', 'SYS_MODULE',",
      },
    ],
    file: 'test/security/agent-takeover.test.ts',
    isolation: 'gvisor',
    title: 'traces neither the agent nor init, and reads neither memory nor environment',
  },
  {
    name: 'variables in the log',
    fault: 'The log of the server has the variables of each new sandbox.',
    edits: [
      {
        file: 'src/core/sandbox/verbs/creator.ts',
        from: '    log.info({ sandboxID, teamID: row.teamID,',
        to: '    log.info({ row, sandboxID, teamID: row.teamID,',
      },
    ],
    file: 'test/security/leaked-variables.test.ts',
    title: 'are in no log, event, list or error',
  },
  {
    name: 'keys in plain text',
    fault: 'The database holds API keys and not their hashes.',
    edits: [
      {
        file: 'src/core/team/team.ts',
        from: "createHash('sha256').update(secret).digest('hex')\n\n",
        to: 'secret\n\n',
      },
    ],
    file: 'test/e2e/secrets.test.ts',
    title: 'a key is in no file, except the first one in the file for `warren env`',
  },
  {
    name: 'secrets that are not sealed',
    fault: 'The database holds the values of secrets in plain text.',
    edits: [
      {
        file: 'src/core/secret/vault.ts',
        from: "cipher.getAuthTag(), text]).toString('base64') }",
        to: "cipher.getAuthTag(), text]).toString('base64') + value }",
      },
    ],
    file: 'test/e2e/secrets.test.ts',
    title: 'a value is in no file of the data folder, before and after a crash',
  },
  {
    name: 'sandboxes that end with a crash',
    fault: 'The next Warren ends the sandboxes that it finds running.',
    edits: [
      {
        file: 'src/core/sandbox/reconciler.ts',
        from: "if (there !== 'gone') return this.#keepRunning(row, there)",
        to: "if (there !== 'gone' && this.#parts.launcher.isOpen(row)) return this.#keepRunning(row, there)",
      },
    ],
    file: 'test/chaos/restart.test.ts',
    title: 'a sandbox survives a crash while a command streams, answers again, and still ends at its timeout',
  },
  {
    name: 'sandboxes that end with a stop',
    fault: 'An orderly stop of Warren ends its sandboxes.',
    edits: [
      {
        file: 'src/app/start/serve.ts',
        from: "    closers.add('the sandbox service', () => domain.service.close())",
        to: `    closers.add('the sandbox service', async () => {
      for (const { handle } of await ports.stores.sandboxes.listUnended()) if (handle) await driver.stop(handle)
      await domain.service.close()
    })`,
      },
    ],
    file: 'test/chaos/restart.test.ts',
    title: 'an orderly stop leaves sandboxes running',
  },
  {
    name: 'pauses of files alone',
    fault: 'A pause under gVisor keeps the files and not the memory.',
    edits: [
      {
        file: 'src/drivers/oci/runtime/gvisor.ts',
        from: '  keepsMemory: true,',
        to: '  keepsMemory: false,',
      },
    ],
    file: 'test/e2e/survival.test.ts',
    isolation: 'gvisor',
    title: 'of paused sandboxes over a reboot of the machine',
  },
  {
    name: 'no quarantine',
    fault: 'A snapshot that no row owns is removed at once.',
    edits: [
      {
        file: 'src/core/sandbox/snapshots/quarantine.ts',
        from: '    await entries.insert({ snapshotName, nodeID, sandboxID, reason, since: clock.now() })',
        to: '    if (entries && clock && nodeID) await this.#parts.snapshots.remove(snapshotName)',
      },
    ],
    file: 'test/e2e/quarantine.test.ts',
    title: 'stays in quarantine for days, and is given back with its memory and files',
  },
  {
    name: 'acts of guards in the dashboard',
    fault: 'The dashboard keeps from the operator what the guards did.',
    edits: [{ file: 'src/dashboard/views/shares.tsx', from: 'acts={node.acts}', to: 'acts={[]}' }],
    file: 'test/dashboard/operator-suite.ts',
    run: 'test/e2e/dashboard.test.ts',
    title:
      'shows the operator what each team uses of the machine, who is above its share, and whom a guard touched and why',
  },
]
