/**
 * The `warren` command: finds the command, loads the settings, and shows failures without internal details.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { AdminClient } from '../cli/admin-client.ts'
import { asksForHelp, parseCommand, takeWords, UsageError, unknownArgument } from '../cli/arguments.ts'
import { CommandFailure } from '../cli/command-failure.ts'
import { type CommandEntry, completionCommand, entryOf, singleEntryOf } from '../cli/completion.ts'
import { envCommand } from '../cli/env.ts'
import { wrapped } from '../cli/help.ts'
import { callServer } from '../cli/http-call.ts'
import { keyVerbs } from '../cli/key.ts'
import { nodeVerbs } from '../cli/node.ts'
import { asJson, plainLines, withoutDirections } from '../cli/output.ts'
import { pruneCommand } from '../cli/prune.ts'
import { recoverCommand } from '../cli/recover.ts'
import { type RunParts, runCommand } from '../cli/run.ts'
import { sandboxVerbs } from '../cli/sandbox.ts'
import { secretVerbs } from '../cli/secret.ts'
import { snapshotVerbs } from '../cli/snapshot.ts'
import { listenForStop } from '../cli/stop-signals.ts'
import { didYouMean, suggestCommands } from '../cli/suggest.ts'
import { teamVerbs } from '../cli/team.ts'
import { TeamClient } from '../cli/team-client.ts'
import { templateVerbs } from '../cli/template.ts'
import { TemplateClient } from '../cli/template-client.ts'
import { createTerminal } from '../cli/terminal.ts'
import { upgradeCommand } from '../cli/upgrade.ts'
import { runSingle, runVerb, type VerbTable } from '../cli/verbs.ts'
import { volumeVerbs } from '../cli/volume.ts'
import { webhookVerbs } from '../cli/webhook.ts'
import { AppError } from '../lib/app-error.ts'
import { systemClock } from '../lib/clock.ts'
import { findServer, findTeamAccess } from './commands/find-server.ts'
import { clientVariables, loadConfig, wantsStacks } from './config/config.ts'
import { configCommand } from './config/config-command.ts'
import { refusedStatus, refusingStart, StartRefusal } from './process/start-refusal.ts'
import { projectFolder } from './project/project-folder.ts'
import { version } from './project/version.ts'

type Command = CommandEntry & { run: (args: string[]) => Promise<string | number> }

const withVerbs = <Parts>(table: VerbTable<Parts, string | number>, parts: () => Parts): Command => ({
  ...entryOf(table),
  run: (args) => runVerb(table, args, parts()),
})

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
  { ...singleEntryOf(runCommand), run: (args) => runSingle(runCommand, args, runParts()) },
  withVerbs(sandboxVerbs, () => ({ ...runParts(), print })),
  withVerbs(templateVerbs, () => ({
    connect: connectTemplates,
    connectAdmin: connect,
    connectTeam,
    print: (line, aside) => (aside ? printAside : print)(line),
  })),
  withVerbs(snapshotVerbs, () => connectTeam),
  withVerbs(volumeVerbs, () => ({ connect: connectTeam, connectAdmin: connect })),
  withVerbs(secretVerbs, () => ({ connect: connectTeam, input: process.stdin })),
  withVerbs(webhookVerbs, () => connectTeam),
  withVerbs(teamVerbs, () => connect),
  withVerbs(keyVerbs, () => connect),
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
      const place = { folder: projectFolder, dataFolder, isClone }
      return upgradeCommand(args, { version, upgradeTo, ...place, ...database })
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

/** Commands of Docker, and the verbs of `warren sandbox` that do what they do. */
const shortcuts: Readonly<Record<string, string>> = {
  ps: 'list',
  ls: 'list',
  exec: 'exec',
  cp: 'cp',
  logs: 'logs',
  stop: 'pause',
  kill: 'kill',
  rm: 'kill',
}

const width = Math.max(...commands.map(({ use }) => use.length))

const help = `Warren ${version}: a sandbox cloud on your own machine.

${commands.map(({ use, does }) => wrapped(`${use.padEnd(width)}  ${does}`, 2, width + 4)).join('\n')}

${wrapped(`Each command answers --help, and so does each VERB. Those that show something take
--json. They end with 0, with 1 when they failed, and with 2 when they were written
wrongly.

As with Docker, \`warren ${Object.keys(shortcuts).join('`, `')}\` are short for
verbs of \`warren sandbox\`. Settings are environment variables, such as
WARREN_PORT=3001.`)}`

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

function print(line: string): void {
  process.stdout.write(`${withoutDirections(line)}\n`)
}

function printAside(line: string): void {
  process.stderr.write(`${withoutDirections(line)}\n`)
}

const runParts = (): RunParts => ({
  connect: connectTeam,
  terminal: createTerminal(process.stdin, process.stdout),
  input: process.stdin,
  output: process.stdout,
  errors: process.stderr,
  listenForStop: () => listenForStop(process.stdout, process.stderr),
  clock: systemClock,
  say: printAside,
})

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

async function connectTemplates(): Promise<TemplateClient> {
  return new TemplateClient(await findTeamAccess(loadConfig(), clientVariables()))
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
  if (Object.hasOwn(shortcuts, word)) return main(['sandbox', shortcuts[word]!, ...args])
  const name = otherNames[word] ?? word
  if (name === 'help' && args.length > 0) return main([...args, '--help'])
  if (name === 'help') {
    print(help)
    return 0
  }
  const command = commands.find((one) => one.name === name)
  if (!command) {
    const suggestion = didYouMean(suggestCommands(word, commands))
    throw new UsageError(`Unknown command '${word}'.${suggestion}`, 'warren')
  }
  const result = await command.run(args)
  if (typeof result === 'number') return result
  print(result)
  return 0
}

function report(error: unknown): number {
  const detail = error instanceof Error ? (error.stack ?? error.message) : String(error)
  if (wantsStacks())
    printAside(plainLines(`${detail}\n${error instanceof Error ? String(error.cause ?? '') : ''}`))
  // A message may quote a sandbox.
  else if (error instanceof AppError) printAside(plainLines(error.message))
  else {
    const text = error instanceof Error ? error.message : String(error)
    printAside(`Something went wrong that Warren did not expect: ${plainLines(text)}`)
    printAside('WARREN_LOG_LEVEL=debug shows where.')
  }
  if (error instanceof StartRefusal) return refusedStatus
  if (error instanceof CommandFailure) return error.exitCode
  return error instanceof UsageError ? 2 : 1
}

process.exitCode = await main(process.argv.slice(2)).catch(report)
