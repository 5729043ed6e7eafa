/** Detects the end of processes that the agent started: Node knows only those that it started itself. */
import { constants } from 'node:os'
import type { CFunction, CLibrary } from '../../lib/c-library.ts'

type ExitListener = (exitCode: number | null, signal: string | null) => void

/** Calls the listener once the process has ended. Until then nobody else has its pid. */
export type AwaitExit = (pid: number, listener: ExitListener) => void

const withoutWaiting = 1
const signalBits = 0x7f
const exitCodeShift = 8
const exitCodeBits = 0xff

/** One for all listeners, because the signal is for all. */
let opened: AwaitExit | undefined

export function openAwaitExit(libc: CLibrary): AwaitExit {
  opened ??= listenForEnds(libc.func('int waitpid(int pid, void *status, int options)'))
  return opened
}

function listenForEnds(waitpid: CFunction): AwaitExit {
  const listeners = new Map<number, ExitListener>()
  const status = Buffer.alloc(4)
  // One signal may stand for several ended processes.
  process.on('SIGCHLD', () => {
    for (const [pid, listener] of listeners) {
      if (waitpid(pid, status, withoutWaiting) !== pid) continue
      listeners.delete(pid)
      notify(listener, status.readInt32LE())
    }
  })
  return (pid, listener) => void listeners.set(pid, listener)
}

function notify(listener: ExitListener, status: number): void {
  const signal = status & signalBits
  if (signal === 0) listener((status >> exitCodeShift) & exitCodeBits, null)
  else listener(null, signalName(signal))
}

/** If a signal has several names, the first is the usual one. */
function signalName(signal: number): string {
  const known = Object.entries(constants.signals).find(([, number]) => number === signal)
  return known?.[0] ?? `signal ${signal}`
}
