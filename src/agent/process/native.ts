/**
 * System calls that Node lacks, through the kit's addon. Loaded on first use. Descriptors that are opened
 * here are closed in every child, so that no process inherits another's streams.
 */
import { closeSync, constants, openSync } from 'node:fs'
import { AppError, errorText } from '../../lib/app-error.ts'
import { openCLibrary } from '../../lib/c-library.ts'
import { type AwaitExit, openAwaitExit } from './children.ts'
import { ProcessLimit } from './process-limit.ts'
import { openSpawn, type Spawn } from './spawn.ts'

export type TerminalSize = { cols: number; rows: number }
export type Native = {
  spawn: Spawn
  awaitExit: AwaitExit
  /** The read and write ends of a pipe. */
  pipe(): { read: number; write: number }
  /** Number of bytes that can be read from this end of a pipe at once. */
  waitingBytes(fd: number): number
  /** Whether bytes can be read from this end of a pipe, and whether nobody can write to it any more. */
  stateOf(fd: number): { hasBytes: boolean; isClosed: boolean }
  /** A new terminal: our end, and the path of the process's end. */
  openTerminal(size: TerminalSize): { ours: number; path: string }
  /** Duplicates a descriptor. */
  duplicate(fd: number): number
  resizeTerminal(ours: number, size: TerminalSize): void
  /**
   * Whether the kernel knows the session of a terminal, and tells its processes when it is gone. gVisor does
   * neither.
   */
  hangsUp(ours: number): boolean
  /** Tells whether a command would reach its limit of processes at once, or soon. */
  processLimit: ProcessLimit
  /** Runs `start` under the process limit of commands, which is below the agent's own. */
  withinCommandLimit<T>(start: () => T): T
}

// ioctl numbers of Linux, equal on all architectures that Warren supports.
const setLock = 0x40045431
const getNumber = 0x80045430
const setSize = 0x5414
const getForeground = 0x540f
const countWaitingBytes = 0x541b
const setDumpable = 4
const duplicateClosedOnExec = 1030
const closeOnExec = 0o2000000
const largestSize = 0xffff
/** POLLIN and POLLHUP. */
const readable = 1
const hungUp = 16
/** RLIMIT_NPROC. */
const processCount = 6

let loaded: { addonPath: string; native: Native } | undefined

/** Loaded once for all callers: the limits of this process are read before they are changed. */
export function loadNative(addonPath: string): Native {
  if (loaded?.addonPath !== addonPath) loaded = { addonPath, native: openNative(addonPath) }
  return loaded.native
}

function openNative(addonPath: string): Native {
  const { libc, ioctl, fcntl, pipe2, poll, prctl, getrlimit, setrlimit, errno } = bind(addonPath)
  // No process starts before this is loaded: so none can trace the agent, or read its memory and its token.
  prctl(setDumpable, 0, 0, 0, 0)
  const commandLimit = Buffer.alloc(16)
  getrlimit(processCount, commandLimit)
  const ownLimit = Buffer.concat([commandLimit.subarray(8), commandLimit.subarray(8)])
  setrlimit(processCount, ownLimit)
  const control = (fd: number, request: number, value: Buffer) => {
    if (ioctl(fd, request, value) !== 0) throw failed('the terminal did not obey', errno())
  }
  const resizeTerminal = (fd: number, { cols, rows }: TerminalSize) => {
    const value = Buffer.alloc(8)
    value.writeUInt16LE(Math.min(rows, largestSize), 0)
    value.writeUInt16LE(Math.min(cols, largestSize), 2)
    control(fd, setSize, value)
  }
  const count = Buffer.alloc(4)
  const polled = Buffer.alloc(8)
  // First, because its signal handler must be known before the list of signals that a new process resets.
  const awaitExit = openAwaitExit(libc)
  return {
    spawn: openSpawn(libc),
    awaitExit,
    pipe() {
      const ends = Buffer.alloc(8)
      if (pipe2(ends, closeOnExec) !== 0) throw failed('no pipe could be made', errno())
      return { read: ends.readInt32LE(0), write: ends.readInt32LE(4) }
    },
    waitingBytes(fd) {
      if (ioctl(fd, countWaitingBytes, count) !== 0) throw failed('a pipe could not be looked into', errno())
      return count.readInt32LE()
    },
    stateOf(fd) {
      polled.writeInt32LE(fd, 0)
      polled.writeInt32LE(readable, 4)
      if (poll(polled, 1, 0) < 0) throw failed('a pipe could not be looked into', errno())
      const events = polled.readInt16LE(6)
      return { hasBytes: (events & readable) !== 0, isClosed: (events & hungUp) !== 0 }
    },
    openTerminal(size) {
      const ours = openTerminalEnd('/dev/ptmx')
      try {
        const value = Buffer.alloc(4)
        control(ours, setLock, value)
        control(ours, getNumber, value)
        resizeTerminal(ours, size)
        return { ours, path: `/dev/pts/${value.readInt32LE()}` }
      } catch (error) {
        closeSync(ours)
        throw error
      }
    },
    duplicate(fd) {
      const copy = fcntl(fd, duplicateClosedOnExec, 0)
      if (copy < 0) throw failed('no terminal could be opened', errno())
      return copy
    },
    resizeTerminal,
    processLimit: new ProcessLimit(Number(commandLimit.readBigUInt64LE(0))),
    hangsUp: (ours) => ioctl(ours, getForeground, Buffer.alloc(4)) === 0,
    withinCommandLimit(start) {
      setrlimit(processCount, commandLimit)
      try {
        return start()
      } finally {
        setrlimit(processCount, ownLimit)
      }
    },
  }
}

/** Opens a terminal without making it our own; only our side is non-blocking. */
export function openTerminalEnd(path: '/dev/ptmx' | (string & {})): number {
  const waiting = path === '/dev/ptmx' ? constants.O_NONBLOCK : 0
  try {
    return openSync(path, constants.O_RDWR | constants.O_NOCTTY | waiting)
  } catch (error) {
    throw new AppError('limit_reached', `no terminal could be opened: ${errorText(error)}`, { cause: error })
  }
}

function bind(addonPath: string) {
  const libc = openCLibrary(addonPath)
  return {
    libc,
    fcntl: libc.func('int fcntl(int fd, int command, int value)'),
    ioctl: libc.func('int ioctl(int fd, unsigned long request, void *value)'),
    pipe2: libc.func('int pipe2(void *ends, int flags)'),
    poll: libc.func('int poll(void *descriptors, unsigned long count, int timeout)'),
    prctl: libc.func(
      'int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)',
    ),
    getrlimit: libc.func('int getrlimit(int resource, void *limit)'),
    setrlimit: libc.func('int setrlimit(int resource, const void *limit)'),
    errno: libc.errno,
  }
}

function failed(what: string, errno: number): AppError {
  return new AppError('limit_reached', `${what} (system error ${errno})`)
}
