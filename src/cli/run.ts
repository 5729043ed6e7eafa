/** `warren run` and `warren sandbox exec`: a command in a new sandbox, or in one that runs. */
import type { Readable, Writable } from 'node:stream'
import type { SandboxDetail } from '../contract/rest/sandbox.ts'
import { AppError, errorText } from '../lib/app-error.ts'
import { type Clock, sleep } from '../lib/clock.ts'
import { namedValues, UsageError } from './arguments.ts'
import { CommandFailure } from './command-failure.ts'
import {
  createSandbox,
  defaultTimeoutSeconds,
  newSandboxOf,
  sandboxOptions,
  sandboxOptionTexts,
} from './new-sandbox.ts'
import { duration } from './output.ts'
import { type RemoteCommand, RemoteProcesses, type UserTerminal } from './remote-process.ts'
import { SandboxEnded } from './sandbox-end.ts'
import { sandboxIDOf } from './sandbox-name.ts'
import type { StopSignals } from './stop-signals.ts'
import { type AgentAccess, type TeamClient, whichServer } from './team-client.ts'
import type { Given, SingleCommand } from './verbs.ts'

/** How often a running command's sandbox gets its time again. */
const extendEveryMs = 60_000

export type RunParts = {
  connect: () => Promise<TeamClient>
  terminal: UserTerminal
  input: Readable & { isTTY?: boolean }
  output: Writable
  errors: Writable
  listenForStop: () => StopSignals
  clock: Clock
  /** The words that start this command line anew. */
  program: readonly string[]
  /** Prints a line beside the output of the command. */
  say: (line: string) => void
}

export const processOptions = {
  texts: { user: 'NAME', cwd: 'PATH' },
  flags: ['interactive', 'tty'],
  shorts: { interactive: 'i', tty: 't', user: 'u', cwd: 'w' },
} as const

export const processOptionTexts = {
  user: "who runs the command (default: the template's user)",
  cwd: "the folder in which the command runs (default: the template's)",
  interactive: 'passes the input on even if it is a terminal; piped input always is',
  tty: 'gives the command a terminal; -it without a command is a shell',
}

export const runCommand: SingleCommand<RunParts, number> = {
  name: 'run',
  does: 'run a command in a new sandbox, which is then killed',
  notes: whichServer,
  verb: {
    does: 'Creates a sandbox, runs the command in it, and kills the sandbox when the command has ended.',
    about: `Ctrl-C kills it too. The exit code is that of the command; it is 125 if the sandbox
failed, 126 if the command could not be started, and 127 if there is no such
program. Options stand before the command:

  warren run echo hello
  warren run -it
  warren run ubuntu:24.04 -- cat /etc/os-release
  warren run --cpu 2 --memory 4g -v datasets:/data -- python3 /data/train.py

A word before -- is an image, and so is a first word with a tag, such as
ubuntu:24.04. The first use of an image or a size builds a template, and tells how.`,
    options: {
      ...sandboxOptionTexts,
      ...processOptionTexts,
      timeout: 'the sandbox ends after this time (default: as long as its command runs)',
      keep: `leaves the sandbox running, for as long as --timeout says (default: ${defaultTimeoutSeconds})`,
      rm: 'kills the sandbox afterwards, as it is without this option; for those used to it',
    },
    texts: { ...sandboxOptions.texts, ...processOptions.texts },
    lists: sandboxOptions.lists,
    flags: [...processOptions.flags, 'keep', 'rm', ...sandboxOptions.flags],
    shorts: { ...sandboxOptions.shorts, ...processOptions.shorts },
    json: false,
    takesCommand: true,
    takesImage: true,
    run: (given, parts) => run(given, parts).catch(rethrow),
  },
}

async function run(given: Given, parts: RunParts): Promise<number> {
  const { flags, values } = given
  if (flags.has('keep') && flags.has('rm'))
    throw new UsageError('--keep and --rm exclude each other.', 'warren run')
  const wanted = newSandboxOf(given, 'warren run')
  const remote = remoteCommandOf(given, parts, 'warren run')
  const client = await parts.connect()
  using stop = parts.listenForStop()
  const created = await createSandbox(client, wanted, parts.say, stop.signal).catch((error) => {
    if (stop.signal.aborted) return undefined
    throw error
  })
  if (!created) return stop.exitCode()
  const { sandboxID, envdAccessToken } = created
  const ended = new AbortController()
  let isPaused = false
  try {
    stop.signal.throwIfAborted()
    if (values.timeout === undefined) void keepRunning(client, sandboxID, parts.clock, ended.signal)
    const agent = { sandboxID, accessToken: envdAccessToken, user: values.user }
    return await execute(client, agent, remote, given, parts, stop.signal)
  } catch (error) {
    if (stop.signal.aborted) return stop.exitCode()
    // Who paused it wants it kept.
    isPaused = error instanceof SandboxEnded && error.isPaused
    throw withTimeout(error, values.timeout)
  } finally {
    ended.abort()
    if (flags.has('keep') && !isPaused) {
      const time = duration((wanted.timeout ?? defaultTimeoutSeconds) * 1000)
      parts.say(
        `The sandbox ${sandboxID} goes on for ${time}. Use it: warren sandbox exec ${sandboxID} -- COMMAND`,
      )
    } else if (!isPaused) await killAfterwards(client, sandboxID, parts.say)
  }
}

/** Names the option that ended the sandbox. */
function withTimeout(error: unknown, seconds: string | undefined): unknown {
  if (!(error instanceof SandboxEnded) || error.reason !== 'timeout' || seconds === undefined) return error
  return new CommandFailure(`The sandbox ended after ${seconds} s (--timeout).`, 125, { cause: error })
}

async function killAfterwards(
  client: TeamClient,
  sandboxID: string,
  say: (line: string) => void,
): Promise<void> {
  await client.kill(sandboxID).catch((error) => {
    // Nothing to do if its time was over.
    if (error instanceof AppError && error.code === 'not_found') return
    say(`The sandbox ${sandboxID} could not be killed: ${errorText(error)} It ends when its time is over.`)
  })
}

/** If this process dies, nobody extends the time of its sandbox any more, which then ends by itself. */
async function keepRunning(
  client: TeamClient,
  sandboxID: string,
  clock: Clock,
  until: AbortSignal,
): Promise<void> {
  while (!until.aborted) {
    await sleep(clock, extendEveryMs, until).catch(() => {})
    // The stream of the command tells if the sandbox has ended.
    if (!until.aborted) await client.setTimeout(sandboxID, defaultTimeoutSeconds).catch(() => {})
  }
}

export async function execCommand(given: Given, parts: RunParts): Promise<number> {
  const { words, values } = given
  const [sandboxID] = words
  const remote = remoteCommandOf(given, parts, 'warren sandbox')
  const client = await parts.connect()
  using stop = parts.listenForStop()
  try {
    const agent = await agentOf(client, await sandboxIDOf(client, sandboxID!), values.user)
    return await execute(client, agent, remote, given, parts, stop.signal)
  } catch (error) {
    if (stop.signal.aborted) return stop.exitCode()
    return rethrow(error)
  }
}

export async function findRunning(client: TeamClient, sandboxID: string): Promise<SandboxDetail> {
  const found = await client.getSandbox(sandboxID)
  if (found.state === 'running') return found
  const how = `Run \`warren sandbox resume ${sandboxID}\` first.`
  throw new AppError('conflict', `The sandbox ${sandboxID} is paused. ${how}`)
}

/** How to reach the agent of a sandbox that runs. */
export async function agentOf(
  client: TeamClient,
  sandboxID: string,
  user: string | undefined,
): Promise<AgentAccess> {
  const { envdAccessToken } = await findRunning(client, sandboxID)
  return { sandboxID, accessToken: envdAccessToken, user }
}

export const loginShell = (cwd: string | undefined): RemoteCommand => ({
  cmd: '/bin/bash',
  args: ['-i', '-l'],
  envs: { TERM: 'xterm-256color' },
  ...(cwd !== undefined && { cwd }),
})

/** A shell on an input that is no terminal could never be typed into. */
export function requireTerminal({ input }: Pick<RunParts, 'input'>, option: string, command: string): void {
  if (input.isTTY) return
  const how = option === '' ? 'pipe commands into `exec` instead' : 'leave out -t to pipe the input on'
  throw new UsageError(`The input is not a terminal, which ${option || 'a shell'} needs: ${how}.`, command)
}

function remoteCommandOf(
  { commandLine = [], values, lists, flags }: Given,
  parts: Pick<RunParts, 'input'>,
  command: string,
): RemoteCommand {
  const [cmd, ...args] = commandLine
  const { cwd } = values
  const isTerminal = flags.has('tty')
  if (isTerminal && flags.has('interactive')) requireTerminal(parts, '-it', command)
  if (cmd === undefined && isTerminal) return loginShell(cwd)
  if (cmd === undefined)
    throw new UsageError('A command is missing, such as `echo hello`; -it alone opens a shell.', command)
  const envs = {
    ...(isTerminal && { TERM: 'xterm-256color' }),
    ...namedValues('env', lists.env ?? [], command),
  }
  return { cmd, args, envs, ...(cwd !== undefined && { cwd }) }
}

function execute(
  client: TeamClient,
  agent: AgentAccess,
  remote: RemoteCommand,
  { flags }: Given,
  { terminal, input, output, errors }: RunParts,
  signal: AbortSignal,
): Promise<number> {
  const processes = new RemoteProcesses(client, agent)
  if (flags.has('tty')) return processes.runInTerminal(remote, terminal, signal)
  const passesInput = flags.has('interactive') || !input.isTTY
  return processes.runWithPipes(remote, { input: passesInput ? input : undefined, output, errors }, signal)
}

export function rethrow(error: unknown): never {
  if (!(error instanceof AppError) || error instanceof UsageError || error instanceof CommandFailure)
    throw error
  throw new CommandFailure(error.message, 125, { cause: error })
}
