/** What `warren` on a server and `warren` as a package of its own share: the commands of a team, and how a command is run and reported. */
import type { AdminClient } from '../../cli/admin-client.ts'
import { UsageError } from '../../cli/arguments.ts'
import { auditCommand } from '../../cli/audit.ts'
import { CommandFailure } from '../../cli/command-failure.ts'
import { type CommandEntry, entryOf, singleEntryOf } from '../../cli/completion.ts'
import { wrapped } from '../../cli/help.ts'
import { keyVerbs } from '../../cli/key.ts'
import { loginCommand } from '../../cli/login.ts'
import { memberVerbs } from '../../cli/member.ts'
import { plainLines, withoutDirections } from '../../cli/output.ts'
import type { PeopleClient } from '../../cli/people-client.ts'
import { type RunParts, runCommand } from '../../cli/run.ts'
import { sandboxVerbs } from '../../cli/sandbox.ts'
import { secretVerbs } from '../../cli/secret.ts'
import { snapshotVerbs } from '../../cli/snapshot.ts'
import { sshConfigCommand } from '../../cli/ssh.ts'
import { listenForStop } from '../../cli/stop-signals.ts'
import { didYouMean, suggestCommands } from '../../cli/suggest.ts'
import { teamVerbs } from '../../cli/team.ts'
import { TeamClient } from '../../cli/team-client.ts'
import { templateVerbs } from '../../cli/template.ts'
import { type TeamAccess, TemplateClient } from '../../cli/template-client.ts'
import { createTerminal } from '../../cli/terminal.ts'
import { runSingle, runVerb, type VerbTable } from '../../cli/verbs.ts'
import { volumeVerbs } from '../../cli/volume.ts'
import { webhookVerbs } from '../../cli/webhook.ts'
import { AppError } from '../../lib/app-error.ts'
import { systemClock } from '../../lib/clock.ts'
import { wantsStacks } from '../config/client-variables.ts'
import { refusedStatus, StartRefusal } from '../process/start-refusal.ts'

/** `warren team member` has verbs of its own. */
export const teamCommand = (admin: () => Promise<AdminClient>, people: ConnectPeople): Command => ({
  ...entryOf(teamVerbs),
  run: ([word, ...args]) =>
    word === 'member'
      ? runVerb(memberVerbs, args, people)
      : runVerb(teamVerbs, word === undefined ? [] : [word, ...args], admin),
})

type ConnectPeople = () => Promise<PeopleClient>

/** A sign-in; keys and the audit, for the operator of this server or with the key of a team. */
export const peopleCommands = (people: ConnectPeople): Command[] => [
  {
    ...singleEntryOf(loginCommand),
    use: 'login URL',
    run: (args) => runSingle(loginCommand, args, { clock: systemClock, say: printAside }),
  },
  withVerbs(keyVerbs, () => people),
  {
    ...singleEntryOf(auditCommand),
    run: (args) => runSingle(auditCommand, args, { connect: people, clock: systemClock, print }),
  },
]

export type Command = CommandEntry & { run: (args: string[]) => Promise<string | number> }

export const withVerbs = <Parts>(table: VerbTable<Parts, string | number>, parts: () => Parts): Command => ({
  ...entryOf(table),
  run: (args) => runVerb(table, args, parts()),
})

type TeamCommandParts = {
  /** The words that start this program. */
  program: readonly string[]
  access: () => Promise<TeamAccess>
  admin: () => Promise<AdminClient>
}

/** The commands that speak to a server with the key of a team. */
export function teamCommands({ program, access, admin }: TeamCommandParts): Command[] {
  const connect = async () => new TeamClient(await access())
  const runParts = (): RunParts => ({
    connect,
    terminal: createTerminal(process.stdin, process.stdout),
    input: process.stdin,
    output: process.stdout,
    errors: process.stderr,
    listenForStop: () => listenForStop(process.stdout, process.stderr),
    clock: systemClock,
    program,
    say: printAside,
  })
  return [
    { ...singleEntryOf(runCommand), run: (args) => runSingle(runCommand, args, runParts()) },
    withVerbs(sandboxVerbs, () => ({ ...runParts(), print })),
    {
      ...singleEntryOf(sshConfigCommand),
      run: (args) => runSingle(sshConfigCommand, args, { program }),
    },
    withVerbs(templateVerbs, () => ({
      connect: async () => new TemplateClient(await access()),
      connectAdmin: admin,
      connectTeam: connect,
      print: (line, aside) => (aside ? printAside : print)(line),
    })),
    withVerbs(snapshotVerbs, () => connect),
    withVerbs(volumeVerbs, () => ({ connect, connectAdmin: admin })),
    withVerbs(secretVerbs, () => ({ connect, input: process.stdin })),
    withVerbs(webhookVerbs, () => connect),
  ]
}

export function print(line: string): void {
  process.stdout.write(`${withoutDirections(line)}\n`)
}

export function printAside(line: string): void {
  process.stderr.write(`${withoutDirections(line)}\n`)
}

const otherNames: Record<string, string> = {
  '--help': 'help',
  '-h': 'help',
  '--version': 'version',
  '-v': 'version',
}

/** Commands of Docker, and the verbs of `warren sandbox` that do what they do. */
const shortcuts: Readonly<Record<string, string>> = {
  ps: 'list',
  ls: 'list',
  exec: 'exec',
  cp: 'cp',
  ssh: 'ssh',
  logs: 'logs',
  stop: 'pause',
  kill: 'kill',
  rm: 'kill',
}

/** In the order in which they are given. */
function helpOf(title: string, commands: readonly Command[], settings: string): string {
  const width = Math.max(...commands.map(({ use }) => use.length))
  const lines = commands.map(({ use, does }) => wrapped(`${use.padEnd(width)}  ${does}`, 2, width + 4))
  const notes = `Each command answers --help, and so does each VERB. Those that show something take
--json. They end with 0, with 1 when they failed, and with 2 when they were written
wrongly.

As with Docker, \`warren ${Object.keys(shortcuts).join('`, `')}\` are short for
verbs of \`warren sandbox\`. ${settings}`
  return `${title}\n\n${lines.join('\n')}\n\n${wrapped(notes)}`
}

type Program = { title: string; commands: readonly Command[]; settings: string }

async function runWord(
  { title, commands, settings }: Program,
  [word = 'help', ...args]: string[],
): Promise<number> {
  const program = { title, commands, settings }
  if (Object.hasOwn(shortcuts, word)) return runWord(program, ['sandbox', shortcuts[word]!, ...args])
  const name = otherNames[word] ?? word
  if (name === 'help' && args.length > 0) return runWord(program, [...args, '--help'])
  if (name === 'help') {
    print(helpOf(title, commands, settings))
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

/** Resolves with the exit code. */
export const runProgram = (program: Program, args: string[]): Promise<number> =>
  runWord(program, args).catch(report)

export function report(error: unknown): number {
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
