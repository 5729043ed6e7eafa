/** Starts a process without a copy of the agent: who it is and what it has open is set by the process itself. */
import { getSystemErrorName } from 'node:util'
import type { CLibrary } from '../../lib/c-library.ts'
import { type CallFailure, type CallList, openCallMemory } from './call-list.ts'

export type SpawnRequest = {
  program: string
  words: readonly string[]
  /** Its environment, each as `NAME=value`. */
  variables: readonly string[]
  cwd: string
  /** Our descriptors that become its standard streams; without one it reads nothing. */
  stdio: readonly [stdin: number | undefined, stdout: number, stderr: number]
  /** Undefined: the agent's own. */
  user: { uid: number; gid: number; groups: readonly number[] } | undefined
  /** Its standard input is a terminal that it shall control. */
  controlsTerminal: boolean
  /** How soon the kernel takes it when memory runs out; undefined leaves that as it is. */
  oomScore: number | undefined
}

/** Throws the failure of the system call, by its name, when there is no process, or it could not become the program. */
export type Spawn = (request: SpawnRequest) => number

/** CLONE_VM, CLONE_VFORK, and SIGCHLD at its end: it has our memory, and we wait until it has another. */
const shareMemory = 0x100 | 0x4000 | 17
const setMask = 2
const allSignals = Buffer.alloc(128, 0xff)
const maskBytes = 8
const noSignals = Buffer.alloc(maskBytes)
/** The `struct sigaction` of the kernel, all zero: what the signal does by default. */
const defaultAction = Buffer.alloc(32)
const lastOrdinarySignal = 31
const unchangeableSignals = [9, 19]
const currentFolder = -100
const [readOnly, writeOnly] = [0, 1]
const takeTerminal = 0x540e
/** UTF-8 takes at most so many bytes for each unit of a text, and every text ends with a zero byte and has an address. */
const bytesPerUnit = 3
const bytesPerText = 9
/** For what is small and always there. */
const otherBytes = 1024
const bytesPerGroup = 4

export function openSpawn(libc: CLibrary): Spawn {
  const memory = openCallMemory(libc, addDefaultSignals)
  const clone = libc.func('int clone(void *instructions, void *stack, int flags, void *list)')
  const setSignalMask = libc.func('int pthread_sigmask(int how, void *set, void *old)')
  const waitpid = libc.func('int waitpid(int pid, void *status, int options)')
  const before = Buffer.alloc(allSignals.length)
  return (request) => {
    const list = memory.beginList(dataBytes(request))
    try {
      addCalls(list, request)
      // Our handlers must not run in the new process, on our memory.
      setSignalMask(setMask, allSignals, before)
      const pid = clone(memory.instructions, list.stack, shareMemory, list.address)
      const failure = pid < 0 ? noProcess(libc) : list.failure()
      setSignalMask(setMask, before, null)
      if (failure === undefined) return pid
      if (pid > 0) waitpid(pid, null, 0)
      throw systemError(failure)
    } finally {
      list.release()
    }
  }
}

function dataBytes({ program, words, variables, cwd, user }: SpawnRequest): number {
  let units = program.length + cwd.length
  for (const word of words) units += word.length
  for (const variable of variables) units += variable.length
  const texts = (2 + words.length + variables.length) * bytesPerText
  const groups = (user?.groups.length ?? 0) * bytesPerGroup
  return units * bytesPerUnit + texts + groups + otherBytes
}

/** Our handlers go before signals may come. */
function addDefaultSignals(list: CallList): void {
  const byDefault = list.bytes(defaultAction)
  for (let signal = 1; signal <= lastOrdinarySignal; signal++) {
    if (!unchangeableSignals.includes(signal)) list.add('rt_sigaction', signal, byDefault, 0, maskBytes)
  }
  list.add('setsid')
}

/** The order matters: what needs rights or a free descriptor comes first. */
function addCalls(list: CallList, { program, words, variables, cwd, user, ...request }: SpawnRequest): void {
  if (request.oomScore !== undefined) addOomScore(list, String(request.oomScore))
  addStreams(list, request.stdio)
  if (request.controlsTerminal) list.add('ioctl', 0, takeTerminal, 1)
  if (user) {
    const groups = [user.gid, ...user.groups]
    list.add('setgroups', groups.length, list.bytes(Buffer.from(new Uint32Array(groups).buffer)))
    list.add('setresgid', user.gid, user.gid, user.gid)
    list.add('setresuid', user.uid, user.uid, user.uid)
  }
  // With the rights of the user: it must not come to stand where it may not go.
  list.add('chdir', list.text(cwd))
  list.add('rt_sigprocmask', setMask, list.bytes(noSignals), 0, maskBytes)
  const argv = list.addresses(words.map((word) => list.text(word)))
  const envp = list.addresses(variables.map((variable) => list.text(variable)))
  list.add('execve', list.text(program), argv, envp)
}

/** A file that is opened after standard input was closed takes its number. */
function addOomScore(list: CallList, score: string): void {
  list.add('close', 0)
  list.addOptional('openat', currentFolder, list.text('/proc/self/oom_score_adj'), writeOnly)
  list.addOptional('write', 0, list.text(score), score.length)
}

function addStreams(list: CallList, [stdin, stdout, stderr]: SpawnRequest['stdio']): void {
  if (stdin === undefined) {
    list.addOptional('close', 0)
    list.add('openat', currentFolder, list.text('/dev/null'), readOnly)
  } else list.add('dup3', stdin, 0)
  list.add('dup3', stdout, 1)
  list.add('dup3', stderr, 2)
}

function noProcess(libc: CLibrary): CallFailure {
  return { call: 'clone', errorNumber: libc.errno() }
}

function systemError({ call, errorNumber }: CallFailure): NodeJS.ErrnoException {
  const code = getSystemErrorName(-errorNumber)
  return Object.assign(new Error(code), { code, errno: -errorNumber, syscall: call })
}
