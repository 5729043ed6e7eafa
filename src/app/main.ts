/** The `warren` command: finds the command, loads the settings, and shows failures without their insides. */
import { AdminClient } from '../cli/admin-client.ts'
import { asksForHelp, UsageError, unknownArgument } from '../cli/arguments.ts'
import { envCommand } from '../cli/env.ts'
import { keyCommand } from '../cli/key.ts'
import { pruneCommand } from '../cli/prune.ts'
import { recoverCommand } from '../cli/recover.ts'
import { teamCommand } from '../cli/team.ts'
import { templateCommand } from '../cli/template.ts'
import { TemplateClient } from '../cli/template-client.ts'
import { volumeCommand } from '../cli/volume.ts'
import { AppError } from '../lib/app-error.ts'
import { systemClock } from '../lib/clock.ts'
import { clientVariables, loadConfig, wantsStacks } from './config.ts'
import { configCommand } from './config-command.ts'
import { findServer, findTeamAccess } from './find-server.ts'
import { version } from './version.ts'

const help = `Warren ${version}: a sandbox cloud on your own machine.

  warren start                     set up what is missing and serve
  warren env [--json]              the lines a client needs to find the running server
  warren doctor [--json]           look at this machine: what works, and how to mend what does not
  warren config [--json]           every setting, its value and where it is from
  warren cert [--domain D]         a certificate to try TLS with, and the authority behind it
  warren team VERB                 create, list, delete teams; show and change their limits
  warren key create|list|revoke    API keys of a team
  warren volume list|delete        volumes of a team
  warren prune [--dry-run]         remove cached build steps, layers and uploads that nothing needs
  warren recover [SNAPSHOT]        list snapshots that nothing owns; give a lost sandbox back
  warren template build DIR        a template out of a Dockerfile and its folder
  warren template add NAME         a built-in template: code-interpreter, desktop, mcp-gateway
  warren mcp                       sandboxes as tools for Claude, Cursor and other clients of MCP, over stdio
  warren version

Settings are environment variables: WARREN_PORT=3001 warren start`

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
  recover: (args) => recoverCommand(args, connect),
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
    ),
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
