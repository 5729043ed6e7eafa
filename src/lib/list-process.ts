/** Starts a process that makes the calls of a list and then executes a program or ends. This process is not copied. */
import { getSystemErrorName } from 'node:util'
import type { CLibrary } from './c-library.ts'
import { type CallFailure, type CallList, openCallMemory } from './call-list.ts'

/**
 * Returns the pid once the process has executed the program. Throws an error with the name of the system call that failed.
 * `dataBytes` is the size of the data that the added calls point at.
 */
type StartByList = (dataBytes: number, addCalls: (list: CallList) => void) => number

/** CLONE_VFORK: this thread waits until the new process has its own memory, or has ended. */
const untilProgram = 0x4000
const setMask = 2
const maskBytes = 8
const noSignals = Buffer.alloc(maskBytes)
/** The `struct sigaction` of the kernel. All zeroes mean the default action. */
const defaultAction = Buffer.alloc(32)
export const ordinarySignals = Array.from({ length: 31 }, (_, index) => index + 1)
const unchangeableSignals = [9, 19]
const currentFolder = -100
const writeOnly = 1
const lastDescriptor = 0xffffffff

/** `addFirst` adds the calls that every list begins with. They are written only once. */
export function openListProcess(libc: CLibrary, addFirst: (list: CallList) => void): StartByList {
  const start = openListClone(libc, addFirst, untilProgram)
  const waitpid = libc.func('int waitpid(int pid, void *status, int options)')
  return (dataBytes, addCalls) => {
    const { pid, list } = start(dataBytes, addCalls)
    try {
      const failure = list.failure()
      if (failure === undefined) return pid
      waitpid(pid, null, 0)
      throw systemError(failure)
    } finally {
      list.release()
    }
  }
}

/** The caller must release the list when the process no longer uses it. */
export type CloneByList = (
  dataBytes: number,
  addCalls: (list: CallList) => void,
) => { pid: number; list: CallList }

/** Without CLONE_VFORK the process makes its calls while this thread goes on. */
export function openListClone(
  libc: CLibrary,
  addFirst: (list: CallList) => void,
  moreFlags = 0,
): CloneByList {
  const memory = openCallMemory(libc, addFirst)
  return (dataBytes, addCalls) => {
    const list = memory.beginList(dataBytes)
    try {
      addCalls(list)
      const pid = libc.startProcess(list.address, list.stack, moreFlags)
      if (pid < 0) throw systemError({ call: 'clone', errorNumber: -pid })
      return { pid, list }
    } catch (error) {
      list.release()
      throw error
    }
  }
}

/** Resets our handlers before signals may arrive. `signals` are those that can have a handler. */
export function addDefaultSignals(list: CallList, signals: readonly number[] = ordinarySignals): void {
  const byDefault = list.bytes(defaultAction)
  for (const signal of signals) {
    if (!unchangeableSignals.includes(signal)) list.add('rt_sigaction', signal, byDefault, 0, maskBytes)
  }
}

/** Unblocks signals. */
export function addSignalMask(list: CallList): void {
  list.add('rt_sigprocmask', setMask, list.bytes(noSignals), 0, maskBytes)
}

/** Closes this descriptor and all above it. */
export function addCloseFrom(list: CallList, first: number): void {
  list.add('close_range', first, lastDescriptor)
}

/** Closes standard input. A file that is opened next gets its number. */
export function addOomScore(list: CallList, score: number): void {
  const text = String(score)
  list.add('close', 0)
  list.addOptional('openat', currentFolder, list.text('/proc/self/oom_score_adj'), writeOnly)
  list.addOptional('write', 0, list.text(text), text.length)
}

export function systemError({ call, errorNumber }: CallFailure): NodeJS.ErrnoException {
  const code = getSystemErrorName(-errorNumber)
  return Object.assign(new Error(`${code}: ${call}`), { code, errno: -errorNumber, syscall: call })
}
