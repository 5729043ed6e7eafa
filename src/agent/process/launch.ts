/** Starts a program with the credentials, environment, folder and streams of a request. */
import { readFileSync, statSync } from 'node:fs'
import { AppError } from '../../lib/app-error.ts'
import type { Account } from '../accounts.ts'
import { systemErrorCode, systemErrorText } from '../errors.ts'
import type { Identity } from '../identity.ts'
import { isGvisor } from '../listen.ts'
import { resolvePath } from '../paths.ts'
import type { Native, TerminalSize } from './native.ts'
import { searchExecutable } from './search-path.ts'
import type { SpawnRequest } from './spawn.ts'
import { openStreams, type Streams } from './streams.ts'

export type ProcessConfig = {
  cmd: string
  args: string[]
  envs: Record<string, string>
  cwd?: string | undefined
}

export type LaunchRequest = {
  config: ProcessConfig
  account: Account
  /** Without a terminal: whether there is a standard input. */
  wantsStdin: boolean
  terminal: TerminalSize | undefined
}

export type Launched = { pid: number; streams: Streams; workdir: string }

/** PATH, unless the sandbox has its own. */
export const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
const shell = '/bin/sh'
const oomScoreFile = '/proc/self/oom_score_adj'
const oomScoreAboveAgent = 100
const largestOomScore = 1000

export function launch(request: LaunchRequest, identity: Identity, native: Native): Launched {
  const { config, account, terminal } = request
  if (config.cmd === '') throw new AppError('invalid_argument', 'no command given')
  const folders = workingFolders(config.cwd ?? '', account, identity.defaultWorkdir)
  const env: Record<string, string> & { PATH: string } = {
    PATH: searchPath,
    HOME: account.home,
    USER: account.name,
    LOGNAME: account.name,
    ...identity.trustVars,
    ...identity.envVars,
    ...config.envs,
  }
  const words = [config.cmd, ...config.args]
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  rejectZeroBytes([...folders, ...words, ...variables])
  const opened = openStreams(request, native)
  const startIn = (cwd: string): number =>
    start(native, {
      program: searchExecutable(config.cmd, env.PATH, cwd),
      words,
      variables,
      cwd,
      stdio: opened.stdio,
      user: account.uid === 0 && account.gid === 0 ? undefined : account,
      controlsTerminal: terminal !== undefined,
      oomScore: commandOomScore(),
    })
  try {
    const { pid, cwd } = startInFirst(folders, startIn, request)
    return { pid, streams: opened.streams, workdir: cwd }
  } catch (error) {
    opened.abandon()
    throw error
  } finally {
    opened.closeTheirs()
  }
}

/** Checks whether a folder exists only if a process could not be started in it. */
function startInFirst(
  folders: readonly string[],
  startIn: (cwd: string) => number,
  { config, account }: LaunchRequest,
): { pid: number; cwd: string } {
  for (const cwd of folders) {
    try {
      return { pid: startIn(cwd), cwd }
    } catch (error) {
      if (!isDirectory(cwd)) continue
      if (error instanceof AppError) throw error
      throw systemCallOf(error) === 'chdir'
        ? notEnterable(cwd, account, error)
        : notStartable(config.cmd, error)
    }
  }
  throw new AppError('invalid_argument', `cwd '${folders[0]}' does not exist`)
}

function start(native: Native, request: SpawnRequest): number {
  const { program, words } = request
  try {
    return spawnWithinLimit(native, request)
  } catch (error) {
    if (systemErrorCode(error) !== 'ENOEXEC' || program === shell) throw error
    // A script without an interpreter line is one for the shell.
    return start(native, { ...request, program: shell, words: [shell, program, ...words.slice(1)] })
  }
}

/**
 * If the user is at the limit of processes, or so close that the command could start none itself, the command
 * gets the reserve: somebody must be able to look around, and to end processes.
 */
export function spawnWithinLimit(
  { processLimit, withinCommandLimit, spawn }: Native,
  request: SpawnRequest,
): number {
  try {
    return processLimit.isShort() ? spawn(request) : withinCommandLimit(() => spawn(request))
  } catch (error) {
    if (systemErrorCode(error) !== 'EAGAIN') throw error
    return spawn(request)
  }
}

function rejectZeroBytes(texts: string[]): void {
  if (texts.some((text) => text.includes('\0')))
    throw new AppError('invalid_argument', 'a command, its variables and its cwd must not hold zero bytes')
}

/** A requested folder must exist; of the defaults, the first that exists is used. */
function workingFolders(asked: string, account: Account, defaultWorkdir: string): string[] {
  if (asked !== '') return [resolvePath(asked, account, defaultWorkdir)]
  return [...new Set([resolvePath('', account, defaultWorkdir), resolvePath('~', account, ''), '/'])]
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
  } catch {
    return false
  }
}

function notEnterable(cwd: string, account: Account, error: unknown): AppError {
  const why = systemErrorText(error)
  return new AppError('invalid_argument', `cwd '${cwd}' cannot be entered by '${account.name}': ${why}`, {
    cause: error,
  })
}

function systemCallOf(error: unknown): string | undefined {
  return error instanceof Error ? (error as NodeJS.ErrnoException).syscall : undefined
}

function notStartable(program: string, error: unknown): AppError {
  const code = systemErrorCode(error)
  if (code === 'EAGAIN' || code === 'ENOMEM' || code === 'EMFILE') {
    return new AppError(
      'limit_reached',
      `'${program}' could not be started: too many processes or too little memory`,
      {
        cause: error,
      },
    )
  }
  // For too long an argument Linux reports E2BIG, and gVisor ENAMETOOLONG.
  const tooLong = code === 'E2BIG' || code === 'ENAMETOOLONG'
  const why = tooLong ? 'an argument or variable is too long, put it into a file' : systemErrorText(error)
  return new AppError('invalid_argument', `'${program}' could not be started: ${why}`, { cause: error })
}

/**
 * When memory runs out, the kernel should kill a command, not the agent. A process inherits the score at its
 * birth, and so does everything that it starts. Raising it needs no privileges. gVisor does not use it.
 */
export function commandOomScore(): number | undefined {
  ownOomScore ??= isGvisor() ? Number.NaN : readOomScore()
  return Number.isNaN(ownOomScore) ? undefined : Math.min(ownOomScore + oomScoreAboveAgent, largestOomScore)
}

/** NaN if there is no score. */
let ownOomScore: number | undefined

function readOomScore(): number {
  try {
    return Number(readFileSync(oomScoreFile, 'latin1'))
  } catch {
    return Number.NaN
  }
}
