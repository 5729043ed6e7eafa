/** Starts a program with the credentials, environment and directory a request asks for. */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { closeSync, statSync, writeFileSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import { AppError, errorText } from '../../lib/app-error.ts'
import type { Account } from '../accounts.ts'
import { systemErrorCode } from '../errors.ts'
import type { Identity } from '../identity.ts'
import { resolvePath } from '../paths.ts'
import { type Fifos, openInput, openOutput, type Pipe } from './fifos.ts'
import { findProgram } from './find-program.ts'
import type { ProcessConfig, Streams } from './running-process.ts'

/** Programs the agent brings along, each as the words that start it. */
export type Tools = { setpriv: readonly string[]; env: readonly string[]; mkfifo: readonly string[] }

export type Launched = { child: ChildProcess; pid: number; streams: Streams }

const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
const oomScoreAdj = '100'

export async function launch(
  config: ProcessConfig,
  account: Account,
  wantsStdin: boolean,
  context: { identity: Identity; fifos: Fifos; tools: Tools },
): Promise<Launched> {
  if (config.cmd === '') throw new AppError('invalid_argument', 'no command given')
  const cwd = workingDirectory(config.cwd ?? '', account, context.identity.defaultWorkdir)
  const env = {
    PATH: searchPath,
    HOME: account.home,
    USER: account.name,
    LOGNAME: account.name,
    ...context.identity.envVars,
    ...config.envs,
  }
  const command = withCredentials([config.cmd, ...config.args], account, env, cwd, context.tools)
  const fifos = await context.fifos.take(wantsStdin ? 3 : 2)
  return startWith(fifos, account, wantsStdin, (stdio) =>
    start(command.words, { ...command.options, cwd, stdio, detached: true }, config.cmd),
  )
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

/**
 * Node can set user and group but drops the supplementary groups; for a user who has some, setpriv sets all
 * three and becomes the program, which keeps the pid.
 */
function withCredentials(
  words: string[],
  account: Account,
  env: Record<string, string>,
  cwd: string,
  tools: Tools,
): { words: string[]; options: SpawnOptions } {
  if (account.uid === 0 && account.gid === 0) return { words, options: { env } }
  if (account.groups.length === 0) return { words, options: { env, uid: account.uid, gid: account.gid } }
  const program = findProgram(words[0]!, env.PATH ?? '', cwd)
  // What steers the image's own loader would break ours: such variables are set last, by env.
  const [forLoader, plain] = partition(env, (name) => /^(LD_|GLIBC_TUNABLES$)/.test(name))
  const assignments = Object.entries(forLoader).map(([name, value]) => `${name}=${value}`)
  const setGroups = [
    '--reuid',
    `${account.uid}`,
    '--regid',
    `${account.gid}`,
    '--groups',
    [account.gid, ...account.groups].join(),
  ]
  return {
    words: [
      ...tools.setpriv,
      ...setGroups,
      '--',
      ...(assignments.length > 0 ? [...tools.env, ...assignments] : []),
      program,
      ...words.slice(1),
    ],
    options: { env: plain },
  }
}

function partition(env: Record<string, string>, test: (name: string) => boolean) {
  const entries = Object.entries(env)
  return [
    Object.fromEntries(entries.filter(([name]) => test(name))),
    Object.fromEntries(entries.filter(([name]) => !test(name))),
  ] as const
}

type Stdio = ('pipe' | 'ignore' | number)[]

async function startWith(
  fifos: string[] | undefined,
  account: Account,
  wantsStdin: boolean,
  startChild: (stdio: Stdio) => Promise<{ child: ChildProcess; pid: number }>,
): Promise<Launched> {
  if (!fifos) {
    const { child, pid } = await startChild([wantsStdin ? 'pipe' : 'ignore', 'pipe', 'pipe'])
    const [stdin, stdout, stderr] = child.stdio as unknown as [Writable | null, Readable, Readable]
    return { child, pid, streams: { stdin: stdin ?? undefined, stdout, stderr } }
  }
  const [outPath, errorPath, inPath] = fifos as [string, string, string?]
  const pipes: Pipe[] = []
  const opened = (pipe: Pipe): Pipe => {
    pipes.push(pipe)
    return pipe
  }
  try {
    const stdout = opened(openOutput(outPath, account))
    const stderr = opened(openOutput(errorPath, account))
    const stdin = inPath === undefined ? undefined : opened(openInput(inPath, account))
    const { child, pid } = await startChild([stdin?.theirs ?? 'ignore', stdout.theirs, stderr.theirs])
    return { child, pid, streams: { stdin: stdin?.ours, stdout: stdout.ours, stderr: stderr.ours } }
  } catch (error) {
    for (const pipe of pipes) pipe.ours.destroy()
    throw error
  } finally {
    for (const pipe of pipes) closeSync(pipe.theirs)
  }
}

function start(
  words: string[],
  options: SpawnOptions,
  shownName: string,
): Promise<{ child: ChildProcess; pid: number }> {
  return new Promise((resolve, reject) => {
    const fail = (error: unknown) => reject(notStartable(shownName, error))
    try {
      const child = spawn(words[0]!, words.slice(1), options)
      child.on('error', fail)
      if (child.pid === undefined) return
      preferAsOomVictim(child.pid)
      resolve({ child, pid: child.pid })
    } catch (error) {
      fail(error)
    }
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
  return new AppError('invalid_argument', `'${program}' could not be started: ${errorText(error)}`, {
    cause: error,
  })
}

/** When memory runs out the kernel should take a command, not the agent. */
function preferAsOomVictim(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, oomScoreAdj)
  } catch {}
}
