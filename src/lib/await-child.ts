/** Waits for the end of processes that a thread of this one started by a system call: Node knows nothing of them. */
import type { CFunction } from './c-library.ts'
import { longestTimerMs } from './clock.ts'
import { openNativeLibc } from './native.ts'

/** Null: a signal ended it. */
export type ExitCode = number | null

/** WNOHANG, and the parts of what `wait` gives. */
const withoutWaiting = 1
const signalBits = 0x7f
const exitCodeShift = 8
const exitCodeBits = 0xff

const status = Buffer.alloc(4)
const listeners = new Map<number, (exitCode: ExitCode) => void>()
let waitpid: CFunction | undefined
/** A signal alone does not keep Node running, and whoever waits here would be left without an answer. */
let awake: NodeJS.Timeout | undefined

/** For the main thread, since no other one is told of signals. Nobody else may wait for the same process. */
export function awaitChild(pid: number): Promise<ExitCode> {
  waitpid ??= listenForEnds()
  awake ??= setInterval(() => {}, longestTimerMs)
  return new Promise((resolve) => {
    listeners.set(pid, resolve)
    // The signal may have come before.
    look()
  })
}

/** Until its end is known the pid is nobody else's. */
export function killChild(pid: number): void {
  if (listeners.has(pid)) process.kill(pid, 'SIGKILL')
}

function listenForEnds(): CFunction {
  process.on('SIGCHLD', look)
  return openNativeLibc('The end of programs cannot be noticed').func(
    'int waitpid(int pid, void *status, int options)',
  )
}

/** One signal may stand for several ends. */
function look(): void {
  for (const [pid, tell] of listeners) {
    const found = waitpid!(pid, status, withoutWaiting)
    if (found === 0) continue
    listeners.delete(pid)
    tell(found === pid ? exitCodeOf(status.readInt32LE()) : null)
  }
  if (listeners.size > 0) return
  clearInterval(awake)
  awake = undefined
}

export function exitCodeOf(ended: number): ExitCode {
  return (ended & signalBits) === 0 ? (ended >> exitCodeShift) & exitCodeBits : null
}
