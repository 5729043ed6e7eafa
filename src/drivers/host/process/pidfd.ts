/**
 * File descriptors of processes: they tell for certain when that very process has ended (newer kernels also
 * tell how), and signal no other one.
 */
import { closeSync, readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { type NativeLibc, openNativeLibc } from '../../../lib/native.ts'

export type Pidfds = {
  /** Undefined if there is no process with this pid. */
  open(pid: number): number | undefined
  close(fd: number): void
  /** Sends SIGKILL to that very process; an ended one is no failure. */
  kill(fd: number): void
  /** Returns those of the descriptors whose process has ended. Does not wait. */
  ended(fds: readonly number[]): number[]
  /**
   * The status of an ended process, as `wait` returns it. Undefined if the process was reaped and the kernel
   * is older than 6.15 and does not tell afterwards, or if it is being reaped right now.
   */
  exitStatus(fd: number, pid: number): number | undefined
}

const sysPidfdOpen = 434
const sysPidfdSendSignal = 424
const pollReadable = 1
const pollBytes = 8
/** `PIDFD_GET_INFO` with the first version of `struct pidfd_info`. */
const getInfo = 0xc040ff0b
const infoBytes = 64
const infoExitMask = 8n
const exitCodeOffset = 60

/** `without` names what is impossible if the addon for system calls is missing. */
export function openPidfds(without: string): Pidfds {
  const libc = openNativeLibc(without)
  const syscall = libc.func('long syscall(long number, long first, long second, long third, long fourth)')
  const poll = libc.func('int poll(void *fds, unsigned long count, int timeout)')
  const ioctl = libc.func('int ioctl(int fd, unsigned long request, void *value)')
  return {
    open: (pid) => openPidfd(libc, syscall, pid),
    close: closeSync,
    kill(fd) {
      if (syscall(sysPidfdSendSignal, fd, constants.signals.SIGKILL, 0, 0) === 0) return
      const failure = libc.failure('kill a process')
      if (failure.code !== 'ESRCH') throw failure
    },
    ended(fds) {
      const list = Buffer.alloc(fds.length * pollBytes)
      for (const [at, fd] of fds.entries()) {
        list.writeInt32LE(fd, at * pollBytes)
        list.writeInt16LE(pollReadable, at * pollBytes + 4)
      }
      if (poll(list, fds.length, 0) <= 0) return []
      return fds.filter((_fd, at) => list.readInt16LE(at * pollBytes + 6) !== 0)
    },
    exitStatus(fd, pid) {
      const info = Buffer.alloc(infoBytes)
      info.writeBigUInt64LE(infoExitMask)
      if (ioctl(fd, getInfo, info) === 0 && info.readBigUInt64LE() & infoExitMask) {
        return info.readInt32LE(exitCodeOffset)
      }
      return zombieStatus(pid)
    },
  }
}

function openPidfd(libc: NativeLibc, syscall: (...values: unknown[]) => number, pid: number) {
  const fd = Number(syscall(sysPidfdOpen, pid, 0, 0, 0))
  if (fd >= 0) return fd
  const failure = libc.failure(`open process ${pid}`)
  if (failure.code === 'ESRCH') return undefined
  throw failure
}

/**
 * Until its parent reaps it, the kernel shows the status of an ended process, and nobody else can have its
 * pid.
 */
function zombieStatus(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat
      .slice(stat.lastIndexOf(')') + 2)
      .trim()
      .split(' ')
    return fields[0] === 'Z' ? Number(fields.at(-1)) : undefined
  } catch {
    return undefined
  }
}
