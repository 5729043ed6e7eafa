/** Starts a process that makes the calls of a list and becomes a program or ends, without a copy of this one. */
import { getSystemErrorName } from 'node:util'
import type { CLibrary } from './c-library.ts'
import { type CallFailure, type CallList, openCallMemory } from './call-list.ts'

/**
 * Gives the pid once the process has become the program. Throws the failure of the system call, by its name, when there
 * is no process, or it could not become one. `dataBytes` is how much the calls that are added point at.
 */
export type StartByList = (dataBytes: number, addCalls: (list: CallList) => void) => number

/** CLONE_VFORK: we wait until it has another memory, or has ended. */
const untilProgram = 0x4000
const setMask = 2
const maskBytes = 8
const noSignals = Buffer.alloc(maskBytes)
/** The `struct sigaction` of the kernel, all zero: what the signal does by default. */
const defaultAction = Buffer.alloc(32)
export const ordinarySignals = Array.from({ length: 31 }, (_, index) => index + 1)
const unchangeableSignals = [9, 19]
const currentFolder = -100
const writeOnly = 1
const lastDescriptor = 0xffffffff

/** `addFirst` adds what every list begins with: it is written only once. */
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

/** The list is the caller's to release, once the process uses it no longer. */
export type CloneByList = (
  dataBytes: number,
  addCalls: (list: CallList) => void,
) => { pid: number; list: CallList }

/** Without a flag more, the process makes its calls beside us. */
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

/** Our handlers go before signals may come; `signals` are those that can have any. */
export function addDefaultSignals(list: CallList, signals: readonly number[] = ordinarySignals): void {
  const byDefault = list.bytes(defaultAction)
  for (const signal of signals) {
    if (!unchangeableSignals.includes(signal)) list.add('rt_sigaction', signal, byDefault, 0, maskBytes)
  }
}

/** From here on signals come. */
export function addSignalMask(list: CallList): void {
  list.add('rt_sigprocmask', setMask, list.bytes(noSignals), 0, maskBytes)
}

/** Closes this descriptor and all above it. */
export function addCloseFrom(list: CallList, first: number): void {
  list.add('close_range', first, lastDescriptor)
}

/** Standard input is closed then: a file that is opened afterwards takes its number. */
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
