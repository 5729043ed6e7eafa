/**
 * Starts programs for the server. Node makes a copy of itself for each (`fork`): the kernel copies the page tables of a
 * large process, and afterwards every page that it writes to. The C library's `posix_spawn` copies nothing. If it
 * cannot be called, Node starts the program.
 */
import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import type { Readable, Writable } from 'node:stream'
import { getSystemErrorName } from 'node:util'
import { exitCodeOf } from './await-child.ts'
import { type CFunction, type CLibrary, openCLibrary } from './c-library.ts'
import { delay } from './clock.ts'
import { addonFile } from './native.ts'

export type SpawnOptions = {
  env?: Record<string, string>
  cwd?: string | undefined
  hasInput: boolean
}

export type SpawnedProgram = {
  pid: number
  stdin: Writable | undefined
  stdout: Readable
  stderr: Readable
  kill(): void
  /** Resolves with the exit code, or null after a signal, when the output has ended too. So somebody must read the output. */
  exited: Promise<number | null>
}

/** `struct posix_spawnattr_t` and `posix_spawn_file_actions_t` are smaller on every machine. */
const structBytes = 512
const signalSetBytes = 128
/** POSIX_SPAWN_SETSIGDEF and POSIX_SPAWN_SETSIGMASK. */
const resetSignals = 0x4 | 0x8
const closeOnExec = 0o2000000
/** WNOHANG. */
const withoutWaiting = 1
const longestPauseMs = 5

type SpawnNatively = (program: string, args: readonly string[], options: SpawnOptions) => SpawnedProgram

let native: SpawnNatively | null | undefined

/** Throws if the program cannot be started. Undefined if this machine lacks the call, so that Node must start it. */
export function spawnByCall(
  program: string,
  args: readonly string[],
  options: SpawnOptions,
): SpawnedProgram | undefined {
  native ??= openNativeSpawn() ?? null
  return native?.(program, args, options)
}

/** Undefined: the addon or the C library is missing. */
function openNativeSpawn(): SpawnNatively | undefined {
  try {
    const libc = openCLibrary(addonFile() ?? '')
    return spawnBy(libc, bind(libc))
  } catch {
    return undefined
  }
}

type CallName = 'pipe2' | 'waitpid' | 'spawn' | 'begin' | 'end' | 'open' | 'duplicate' | 'enter'
type Calls = Record<CallName, CFunction> & {
  attributes: Buffer
}

function bind(libc: CLibrary): Calls {
  const attributes = Buffer.alloc(structBytes)
  libc.func('int posix_spawnattr_init(void *attributes)')(attributes)
  libc.func('int posix_spawnattr_setflags(void *attributes, short flags)')(attributes, resetSignals)
  const setDefault = libc.func('int posix_spawnattr_setsigdefault(void *attributes, const void *set)')
  setDefault(attributes, Buffer.alloc(signalSetBytes, 0xff))
  const setMask = libc.func('int posix_spawnattr_setsigmask(void *attributes, const void *set)')
  setMask(attributes, Buffer.alloc(signalSetBytes))
  return {
    attributes,
    pipe2: libc.func('int pipe2(void *ends, int flags)'),
    waitpid: libc.func('int waitpid(int pid, void *status, int options)'),
    begin: libc.func('int posix_spawn_file_actions_init(void *actions)'),
    end: libc.func('int posix_spawn_file_actions_destroy(void *actions)'),
    open: libc.func(
      'int posix_spawn_file_actions_addopen(void *actions, int fd, const char *path, int flags, unsigned int mode)',
    ),
    duplicate: libc.func('int posix_spawn_file_actions_adddup2(void *actions, int from, int to)'),
    enter: libc.func('int posix_spawn_file_actions_addchdir_np(void *actions, const char *path)'),
    spawn: libc.func(
      'int posix_spawnp(void *pid, const char *file, void *actions, void *attributes, const char **words, const char **variables)',
    ),
  }
}

function spawnBy(libc: CLibrary, calls: Calls): SpawnNatively {
  const openPipe = () => {
    const ends = Buffer.alloc(8)
    if (calls.pipe2(ends, closeOnExec) !== 0) throw startError('a pipe', libc.errno())
    return { read: ends.readInt32LE(0), write: ends.readInt32LE(4) }
  }
  return (program, args, { env, cwd, hasInput }) => {
    const theirs: number[] = []
    const ours: Socket[] = []
    const open = (writing: boolean): Socket => {
      const { read, write } = openPipe()
      theirs.push(writing ? read : write)
      const socket = new Socket({ fd: writing ? write : read, readable: !writing, writable: writing })
      ours.push(socket)
      return socket
    }
    try {
      const [stdout, stderr] = [open(false), open(false)]
      const stdin = hasInput ? open(true) : undefined
      const pid = start(calls, program, args, { env, cwd, stdio: [theirs[2], theirs[0]!, theirs[1]!] })
      const followed = follow(pid, calls.waitpid, [stdout, stderr])
      // Closes standard input after the program's end: nothing else notices that nobody reads it any more.
      void followed.exited.then(() => stdin?.destroy())
      return { pid, stdin, stdout, stderr, ...followed }
    } catch (error) {
      for (const socket of ours) socket.destroy()
      throw error
    } finally {
      for (const fd of theirs) closeSync(fd)
    }
  }
}

/**
 * SIGCHLD reaches the main thread only, so this thread calls waitpid when the program's output ends. It polls only a program
 * that closed its output before its end.
 */
function follow(
  pid: number,
  waitpid: CFunction,
  outputs: readonly Readable[],
): Pick<SpawnedProgram, 'exited' | 'kill'> {
  const status = Buffer.alloc(4)
  let hasEnded = false
  const exited = (async () => {
    await Promise.all(outputs.map(closed))
    let found = 0
    for (let pauseMs = 1; found === 0; pauseMs = Math.min(pauseMs + 1, longestPauseMs)) {
      found = waitpid(pid, status, withoutWaiting)
      if (found === 0) await delay(pauseMs)
    }
    hasEnded = true
    return found === pid ? exitCodeOf(status.readInt32LE()) : null
  })()
  const kill = () => {
    // No other process can get the pid before waitpid has returned its end.
    if (!hasEnded) process.kill(pid, 'SIGKILL')
  }
  return { exited, kill }
}

const closed = (stream: Readable): Promise<void> =>
  new Promise((resolve) => {
    stream.on('error', () => {})
    stream.once('close', resolve)
  })

type StartRequest = {
  env: Record<string, string> | undefined
  cwd: string | undefined
  stdio: readonly [stdin: number | undefined, stdout: number, stderr: number]
}

function start(
  calls: Calls,
  program: string,
  args: readonly string[],
  { env = process.env as Record<string, string>, cwd, stdio: [stdin, stdout, stderr] }: StartRequest,
): number {
  if ([program, ...args].some((word) => word.includes('\0'))) {
    throw new Error(`the words of ${program} must be without null bytes`)
  }
  const actions = Buffer.alloc(structBytes)
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  const pid = Buffer.alloc(4)
  calls.begin(actions)
  try {
    if (stdin === undefined) calls.open(actions, 0, '/dev/null', 0, 0)
    else calls.duplicate(actions, stdin, 0)
    calls.duplicate(actions, stdout, 1)
    calls.duplicate(actions, stderr, 2)
    if (cwd !== undefined) calls.enter(actions, cwd)
    const words = [program, ...args]
    const failure = calls.spawn(pid, program, actions, calls.attributes, words, variables)
    if (failure !== 0) throw startError(program, failure)
    return pid.readInt32LE()
  } finally {
    calls.end(actions)
  }
}

function startError(what: string, errno: number): NodeJS.ErrnoException {
  const code = getSystemErrorName(-errno)
  return Object.assign(new Error(`spawn ${what} ${code}`), { code, errno: -errno })
}
