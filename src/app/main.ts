/** The `warren` command: finds the command, loads the settings, and shows failures without their insides. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { AdminClient } from '../cli/admin-client.ts'
import { asksForHelp, UsageError, unknownArgument } from '../cli/arguments.ts'
import { type CommandEntry, completionCommand } from '../cli/completion.ts'
import { envCommand } from '../cli/env.ts'
import { keyCommand } from '../cli/key.ts'
import { nodeCommand } from '../cli/node.ts'
import { pruneCommand } from '../cli/prune.ts'
import { recoverCommand } from '../cli/recover.ts'
import { sandboxCommand } from '../cli/sandbox.ts'
import { teamCommand } from '../cli/team.ts'
import { TeamClient } from '../cli/team-client.ts'
import { templateCommand } from '../cli/template.ts'
import { TemplateClient } from '../cli/template-client.ts'
import { createTerminal } from '../cli/terminal.ts'
import { upgradeCommand } from '../cli/upgrade.ts'
import { volumeCommand } from '../cli/volume.ts'
import { webhookCommand } from '../cli/webhook.ts'
import { AppError } from '../lib/app-error.ts'
import { systemClock } from '../lib/clock.ts'
import { clientVariables, loadConfig, wantsStacks } from './config.ts'
import { configCommand } from './config-command.ts'
import { findServer, findTeamAccess } from './find-server.ts'
import { projectFolder } from './project-folder.ts'
import { version } from './version.ts'

const entries: readonly CommandEntry[] = [
  { name: 'start', use: 'start', does: 'set up what is missing and serve' },
  { name: 'env', use: 'env [--json]', does: 'the lines a client needs to find the running server' },
  {
    name: 'doctor',
    use: 'doctor [--json]',
    does: 'look at this machine: what works, and how to mend what does not',
  },
  { name: 'config', use: 'config [--json]', does: 'every setting, its value and where it is from' },
  ...listed(
    'sandbox',
    ['list', 'info', 'logs', 'shell', 'pause', 'resume', 'fork', 'kill'],
    'sandboxes of a team',
  ),
  ...listed('template', ['list', 'build', 'add', 'delete'], 'templates: of a Dockerfile, or built-in ones'),
  ...listed('volume', ['list', 'delete'], 'volumes of a team'),
  ...listed('webhook', ['list', 'create', 'delete', 'deliveries'], 'receivers of events'),
  ...listed('team', ['create', 'list', 'delete', 'limits'], 'teams and their limits'),
  ...listed('key', ['create', 'list', 'revoke'], 'API keys of a team'),
  ...listed('node', ['list', 'drain', 'undrain', 'forget'], 'machines of the cluster'),
  {
    name: 'prune',
    use: 'prune [--dry-run]',
    does: 'remove cached build steps, layers and uploads that nothing needs',
  },
  {
    name: 'recover',
    use: 'recover [SNAPSHOT]',
    does: 'list snapshots that nothing owns; give a lost sandbox back',
  },
  {
    name: 'cert',
    use: 'cert [--domain D]',
    does: 'a certificate to try TLS with, and the authority behind it',
  },
  { name: 'systemd', use: 'systemd [--install]', does: 'the unit that runs Warren as a service' },
  { name: 'upgrade', use: 'upgrade', does: 'how to bring this Warren to a newer release' },
  {
    name: 'mcp',
    use: 'mcp',
    does: 'sandboxes as tools for Claude, Cursor and other clients of MCP, over stdio',
  },
  { name: 'completion', use: 'completion SHELL', does: 'completion of words for bash, zsh or fish' },
  { name: 'version', use: 'version', does: 'the version of this Warren' },
]

function listed(name: string, verbs: readonly string[], does: string): CommandEntry[] {
  return [{ name, use: `${name} VERB`, does: `${does}: ${verbs.join(', ')}`, verbs }]
}

const help = `Warren ${version}: a sandbox cloud on your own machine.

${entries.map(({ use, does }) => `  warren ${use.padEnd(20)} ${does}`).join('\n')}

Each command answers --help; those that show something take --json. They end with 0, with 1 when they failed, and with 2
when they were written wrongly. Settings are environment variables: WARREN_PORT=3001 warren start`

type Command = (args: string[]) => Promise<string | number>

const commands: Record<string, Command> = {
  help: async () => help,
  version: async () => version,
  config: async (args) => configCommand(args),
  async start(args) {
    if (asksForHelp(args)) return help
    if (args[0] !== undefined) throw unknownArgument(args[0], 'warren')
    const config = loadConfig()
    process.title = 'warren'
    const { start } = await import('./start.ts')
    await start(config)
    return 0
  },
  async doctor(args) {
    const { doctorCommand } = await import('./doctor/doctor.ts')
    return doctorCommand(args, loadConfig(), (text) => process.stdout.write(`${text}\n`))
  },
  async cert(args) {
    const { certCommand } = await import('./cert-command.ts')
    return certCommand(args, loadConfig(), systemClock)
  },
  env: (args) => envCommand(args, async () => (await findServer(loadConfig())).location),
  team: (args) => teamCommand(args, connect),
  key: (args) => keyCommand(args, connect),
  volume: (args) => volumeCommand(args, connect),
  prune: (args) => pruneCommand(args, connect),
  node: (args) => nodeCommand(args, connect),
  recover: (args) => recoverCommand(args, connect),
  sandbox: (args) =>
    sandboxCommand(args, {
      connect: connectTeam,
      print: (line) => process.stdout.write(`${line}\n`),
      terminal: createTerminal(process.stdin, process.stdout),
    }),
  webhook: (args) => webhookCommand(args, connectTeam),
  completion: (args) => completionCommand(args, entries),
  async systemd(args) {
    const { systemdCommand } = await import('./systemd-command.ts')
    return systemdCommand(args, projectFolder, (line) => process.stderr.write(`${line}\n`))
  },
  upgrade: (args) => {
    const isClone = existsSync(join(projectFolder, '.git'))
    const { dataDir: dataFolder } = loadConfig()
    return upgradeCommand(args, { version, folder: projectFolder, dataFolder, isClone })
  },
  async mcp(args) {
    const { mcpCommand } = await import('./mcp-command.ts')
    return mcpCommand(args, () => findTeamAccess(loadConfig(), clientVariables()))
  },
  template: (args) =>
    templateCommand(
      args,
      async () => new TemplateClient(await findTeamAccess(loadConfig(), clientVariables())),
      (line, aside) => (aside ? process.stderr : process.stdout).write(`${line}\n`),
      connect,
      connectTeam,
    ),
}

async function connectTeam(): Promise<TeamClient> {
  return new TeamClient(await findTeamAccess(loadConfig(), clientVariables()))
}

async function connect(): Promise<AdminClient> {
  return new AdminClient((await findServer(loadConfig())).access)
}

const otherNames: Record<string, string> = {
  '--help': 'help',
  '-h': 'help',
  '--version': 'version',
  '-v': 'version',
}

async function main([word = 'help', ...args]: string[]): Promise<number> {
  const name = otherNames[word] ?? word
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (!command) throw new UsageError(`Unknown command '${word}'.`, 'warren')
  const result = await command(args)
  if (typeof result === 'number') return result
  process.stdout.write(`${result}\n`)
  return 0
}

function report(error: unknown): number {
  const detail = error instanceof Error ? (error.stack ?? error.message) : String(error)
  if (wantsStacks())
    process.stderr.write(`${detail}\n${error instanceof Error ? String(error.cause ?? '') : ''}\n`)
  else if (error instanceof AppError) process.stderr.write(`${error.message}\n`)
  else {
    const text = error instanceof Error ? error.message : String(error)
    process.stderr.write(
      `Something went wrong that Warren did not expect: ${text}\nWARREN_LOG_LEVEL=debug shows where.\n`,
    )
  }
  return error instanceof UsageError ? 2 : 1
}

process.exitCode = await main(process.argv.slice(2)).catch(report)
