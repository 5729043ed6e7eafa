/**
 * The `warren` command: finds the command, loads the settings, and shows failures without internal details.
 */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { AdminClient } from '../cli/admin-client.ts'
import { asksForHelp, parseCommand, takeWords, unknownArgument } from '../cli/arguments.ts'
import { completionCommand, singleEntryOf } from '../cli/completion.ts'
import { envCommand } from '../cli/env.ts'
import { wrapped } from '../cli/help.ts'
import { callServer } from '../cli/http-call.ts'
import { nodeVerbs } from '../cli/node.ts'
import { asJson } from '../cli/output.ts'
import { PeopleClient } from '../cli/people-client.ts'
import { pruneCommand } from '../cli/prune.ts'
import { type QuickstartParts, quickstartCommand } from '../cli/quickstart.ts'
import { recoverCommand } from '../cli/recover.ts'
import { TeamClient } from '../cli/team-client.ts'
import { upgradeCommand } from '../cli/upgrade.ts'
import { runSingle } from '../cli/verbs.ts'
import { systemClock } from '../lib/clock.ts'
import { findServer, findTeamAccess } from './commands/find-server.ts'
import { namedAccess } from './commands/named-server.ts'
import {
  type Command,
  peopleCommands,
  print,
  printAside,
  report,
  runProgram,
  teamCommand,
  teamCommands,
  withVerbs,
} from './commands/program.ts'
import { clientVariables } from './config/client-variables.ts'
import { loadConfig } from './config/config.ts'
import { configCommand } from './config/config-command.ts'
import { refusingStart } from './process/start-refusal.ts'
import { projectFolder } from './project/project-folder.ts'
import { version } from './project/version.ts'

/** In the order in which the help shows them. */
const commands: readonly Command[] = [
  { name: 'start', use: 'start', does: 'set up what is missing and serve', run: startServer },
  {
    name: 'env',
    use: 'env [--json]',
    does: 'the lines a client needs to find the running server',
    run: (args) => envCommand(args, async () => (await findServer(loadConfig())).location),
  },
  {
    ...singleEntryOf(quickstartCommand),
    run: (args) => runSingle(quickstartCommand, args, quickstartParts),
  },
  {
    name: 'doctor',
    use: 'doctor [--json]',
    does: 'look at this machine: what works, and how to mend what does not',
    async run(args) {
      const { doctorCommand } = await import('./doctor/doctor.ts')
      return doctorCommand(args, loadConfig(), print)
    },
  },
  {
    name: 'config',
    use: 'config [--json]',
    does: 'every setting, its value and where it is from',
    run: async (args) => configCommand(args),
  },
  ...teamCommands({
    program: [join(projectFolder, 'bin/warren')],
    access: () => findTeamAccess(loadConfig(), clientVariables()),
    admin: connect,
  }),
  teamCommand(connect, connectPeople),
  ...peopleCommands(connectPeople),
  withVerbs(nodeVerbs, () => connect),
  {
    name: 'prune',
    use: 'prune [--dry-run]',
    does: 'remove cached build steps, layers and uploads that nothing needs',
    run: (args) => pruneCommand(args, connect),
  },
  {
    name: 'recover',
    use: 'recover [SNAPSHOT]',
    does: 'list snapshots that nothing owns; give a lost sandbox back',
    run: (args) => recoverCommand(args, connect),
  },
  {
    name: 'cert',
    use: 'cert [--domain D]',
    does: 'a certificate to try TLS with, and the authority behind it',
    async run(args) {
      const { certCommand } = await import('./commands/cert-command.ts')
      return certCommand(args, loadConfig(), systemClock)
    },
  },
  {
    name: 'expose',
    use: 'expose [--domain D]',
    does: 'how to give this Warren an address with TLS, and what it lacks',
    async run(args) {
      const { exposeOnMachine } = await import('./doctor/expose-command.ts')
      const { text, exitCode } = await exposeOnMachine(args, loadConfig())
      print(text)
      return exitCode
    },
  },
  {
    name: 'systemd',
    use: 'systemd [--install]',
    does: 'the unit that runs Warren as a service',
    async run(args) {
      const { systemdCommand } = await import('./commands/systemd-command.ts')
      return systemdCommand(args, projectFolder, printAside)
    },
  },
  {
    name: 'upgrade',
    use: 'upgrade [ARCHIVE]',
    does: 'bring this Warren to a newer release; sandboxes keep running',
    run(args) {
      const isClone = existsSync(join(projectFolder, '.git'))
      const { dataDir: dataFolder, databaseUrl, peerAddress } = loadConfig()
      const database = { hasPostgres: databaseUrl !== null, isInCluster: peerAddress !== null }
      const upgradeTo = async (archive: string) => {
        const { upgradeToArchive } = await import('./commands/upgrade-to-archive.ts')
        const folder = projectFolder
        return upgradeToArchive({ archive, folder, version, runningVersion, say: printAside })
      }
      const project = { folder: projectFolder, dataFolder, isClone }
      return upgradeCommand(args, { version, upgradeTo, ...project, ...database })
    },
  },
  {
    name: 'mcp',
    use: 'mcp',
    does: 'sandboxes as tools for Claude, Cursor and other clients of MCP, over stdio',
    async run(args) {
      const { mcpCommand } = await import('./commands/mcp-command.ts')
      return mcpCommand(args, () => findTeamAccess(loadConfig(), clientVariables()))
    },
  },
  {
    name: 'completion',
    use: 'completion SHELL',
    does: 'completion of words for bash, zsh or fish',
    run: (args) => completionCommand(args, commands),
  },
  {
    name: 'version',
    use: 'version [--json]',
    does: 'the version of this Warren',
    run: async (args) => versionCommand(args),
  },
]

const quickstartParts: QuickstartParts = {
  program: join(projectFolder, 'bin/warren'),
  async find() {
    const { location, access } = await findServer(loadConfig())
    const { adminToken: _, ...reached } = access
    return {
      location,
      admin: new AdminClient(access),
      team: new TeamClient({ ...reached, apiKey: location.apiKey }),
    }
  },
}

const startUsage = `Usage:
  warren start

${wrapped(`Installs what is missing, then serves until Ctrl-C; sandboxes go on without it. The
first start takes some minutes. It needs root. Settings are environment variables,
such as WARREN_PORT=3001; \`warren config\` shows all of them, and
\`warren systemd --install\` makes it a service that comes up with the machine. It ends
with 78 when the machine or the settings have to be changed first, with 1 when the
next try may succeed.`)}`

async function startServer(args: string[]): Promise<string | number> {
  if (asksForHelp(args)) return startUsage
  if (args[0] !== undefined) throw unknownArgument(args[0], 'warren start')
  const config = refusingStart(loadConfig)
  process.title = 'warren'
  const { start } = await import('./start/start.ts')
  await start(config).catch((error) => {
    // A failed start leaves threads, timers and handlers of signals behind, which would keep the process.
    process.exit(report(error))
  })
  return 0
}

function versionCommand(args: string[]): string {
  if (asksForHelp(args)) return 'Usage:\n  warren version [--json]'
  const { words, json } = parseCommand(args, [], 'warren version')
  takeWords(words, [], 'warren version')
  return json ? asJson({ version }) : version
}

/** Of the server that is ready; undefined if there is none. */
async function runningVersion(): Promise<string | undefined> {
  try {
    const { access } = await findServer(loadConfig())
    type Document = { info: { version: string } }
    return (await callServer<Document>(access, { method: 'GET', target: '/openapi.json' })).info.version
  } catch {
    return undefined
  }
}

async function connect(): Promise<AdminClient> {
  return new AdminClient((await findServer(loadConfig())).access)
}

/** As the operator of the server on this machine; else with the key and the server that the client's variables name. */
async function connectPeople(): Promise<PeopleClient> {
  try {
    return new PeopleClient({ admin: (await findServer(loadConfig())).access })
  } catch (error) {
    const team = namedAccess(clientVariables())
    if (!team) throw error
    return new PeopleClient({ team })
  }
}

const program = {
  title: `Warren ${version}: a sandbox cloud on your own machine.`,
  commands,
  settings: 'Settings are environment variables, such as WARREN_PORT=3001.',
}

process.exitCode = await runProgram(program, process.argv.slice(2))
