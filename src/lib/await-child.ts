/** Waits for the end of processes that a thread of this process started by a system call. Node does not know them. */
import type { CFunction } from './c-library.ts'
import { longestTimerMs } from './clock.ts'
import { openNativeLibc } from './native.ts'

/** Null if a signal ended the process. */
type ExitCode = number | null

/** WNOHANG, and the parts of the status that `wait` returns. */
const withoutWaiting = 1
const signalBits = 0x7f
const exitCodeShift = 8
const exitCodeBits = 0xff

const status = Buffer.alloc(4)
const listeners = new Map<number, (exitCode: ExitCode) => void>()
let waitpid: CFunction | undefined
/** A timer that keeps Node running: a signal handler alone does not, and the caller would get no answer. */
let awake: NodeJS.Timeout | undefined

/** Call it in the main thread, because only that gets signals. No other code may wait for the same process. */
export function awaitChild(pid: number): Promise<ExitCode> {
  waitpid ??= listenForEnds()
  awake ??= setInterval(() => {}, longestTimerMs)
  return new Promise((resolve) => {
    listeners.set(pid, resolve)
    // The signal may have come before.
    look()
  })
}

/** No other process can get the pid before this process has read the end of the child. */
export function killChild(pid: number): void {
  if (listeners.has(pid)) process.kill(pid, 'SIGKILL')
}

function listenForEnds(): CFunction {
  process.on('SIGCHLD', look)
  return openNativeLibc('The end of programs cannot be noticed').func(
    'int waitpid(int pid, void *status, int options)',
  )
}

/** Checks all children, because one signal may stand for the ends of several. */
function look(): void {
  for (const [pid, listener] of listeners) {
    const found = waitpid!(pid, status, withoutWaiting)
    if (found === 0) continue
    listeners.delete(pid)
    listener(found === pid ? exitCodeOf(status.readInt32LE()) : null)
  }
  if (listeners.size > 0) return
  clearInterval(awake)
  awake = undefined
}

export function exitCodeOf(ended: number): ExitCode {
  return (ended & signalBits) === 0 ? (ended >> exitCodeShift) & exitCodeBits : null
}
