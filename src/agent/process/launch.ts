/** Starts a program with the credentials, environment, directory and streams a request asks for. */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { AppError, errorText } from '../../lib/app-error.ts'
import type { Account } from '../accounts.ts'
import { systemErrorCode } from '../errors.ts'
import type { Identity } from '../identity.ts'
import { isGvisor } from '../listen.ts'
import { resolvePath } from '../paths.ts'
import { commandFor, type Tools } from './credentials.ts'
import type { Native, TerminalSize } from './native.ts'
import { ifAvailable, openStreams, type Streams } from './streams.ts'

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

export type LaunchContext = { identity: Identity; tools: Tools; native(): Native }

export type Launched = { child: ChildProcess; pid: number; streams: Streams; workdir: string }

const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
const oomScoreFile = '/proc/self/oom_score_adj'
const oomScoreAboveAgent = 100
const largestOomScore = 1000

export async function launch(request: LaunchRequest, context: LaunchContext): Promise<Launched> {
  const { config, account, terminal } = request
  if (config.cmd === '') throw new AppError('invalid_argument', 'no command given')
  const cwd = workingDirectory(config.cwd ?? '', account, context.identity.defaultWorkdir)
  const env = {
    PATH: searchPath,
    HOME: account.home,
    USER: account.name,
    LOGNAME: account.name,
    ...context.identity.trustVars,
    ...context.identity.envVars,
    ...config.envs,
  }
  const words = [config.cmd, ...config.args]
  const command = commandFor(words, account, env, cwd, context.tools, terminal !== undefined)
  const opened = openStreams(request, context.native)
  try {
    const options = { ...command.options, cwd, stdio: opened.stdio }
    const { child, pid } = await start(command.words, options, context).catch((error) => {
      throw notStartable(config.cmd, error)
    })
    return { child, pid, streams: opened.streamsOf(child), workdir: cwd }
  } catch (error) {
    opened.abandon()
    throw error
  } finally {
    opened.closeTheirs()
  }
}

/** An asked-for directory must exist; of the defaults the first that exists is taken. */
function workingDirectory(asked: string, account: Account, defaultWorkdir: string): string {
  if (asked === '') {
    const defaults = [resolvePath('', account, defaultWorkdir), resolvePath('~', account, '')]
    return defaults.find((path) => isDirectory(path)) ?? '/'
  }
  const path = resolvePath(asked, account, defaultWorkdir)
  if (!isDirectory(path)) throw new AppError('invalid_argument', `cwd '${path}' does not exist`)
  return path
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
  } catch {
    return false
  }
}

type Started = { child: ChildProcess; pid: number }

/**
 * A command that finds its user at the limit of processes gets the room that is kept back: somebody has to be able to
 * see what is there, and to end it.
 */
async function start(words: string[], options: SpawnOptions, context: LaunchContext): Promise<Started> {
  const native = ifAvailable(context.native)
  const run = () => spawn(words[0]!, words.slice(1), options)
  if (!native) return untilStarted(run)
  return untilStarted(() => native.withinCommandLimit(run)).catch((error) => {
    if (systemErrorCode(error) === 'EAGAIN') return untilStarted(run)
    throw error
  })
}

function untilStarted(run: () => ChildProcess): Promise<Started> {
  return new Promise((resolve, reject) => {
    const child = asOomVictim(run)
    child.on('error', reject)
    if (child.pid !== undefined) resolve({ child, pid: child.pid })
  })
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
  // The second is what gVisor says.
  const tooLong = code === 'E2BIG' || code === 'ENAMETOOLONG'
  const why = tooLong ? 'an argument or variable is too long, put it into a file' : errorText(error)
  return new AppError('invalid_argument', `'${program}' could not be started: ${why}`, { cause: error })
}

/**
 * When memory runs out the kernel should take a command, not the agent. A child inherits the score at its birth, and so
 * does all that it starts at once: so the agent takes the score on for that moment. Raising and taking back what one
 * raised needs no rights. gVisor has no use for it.
 */
function asOomVictim(start: () => ChildProcess): ChildProcess {
  ownOomScore ??= isGvisor() ? Number.NaN : readOomScore()
  const score = Math.min(ownOomScore + oomScoreAboveAgent, largestOomScore)
  if (Number.isNaN(score) || !writeOomScore(score)) return start()
  try {
    return start()
  } finally {
    writeOomScore(ownOomScore)
  }
}

/** Not a number where there is none. */
let ownOomScore: number | undefined

function readOomScore(): number {
  try {
    return Number(readFileSync(oomScoreFile, 'latin1'))
  } catch {
    return Number.NaN
  }
}

function writeOomScore(score: number): boolean {
  try {
    writeFileSync(oomScoreFile, String(score))
    return true
  } catch {
    return false
  }
}
