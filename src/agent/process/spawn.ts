/** Starts a process without copying the agent: the process itself sets its user and its descriptors. */
import { openSync } from 'node:fs'
import type { CLibrary } from '../../lib/c-library.ts'
import type { CallList } from '../../lib/call-list.ts'
import {
  addDefaultSignals,
  addOomScore,
  addSignalMask,
  openListProcess,
  ordinarySignals,
} from '../../lib/list-process.ts'

export type SpawnRequest = {
  program: string
  words: readonly string[]
  /** Its environment, each entry as `NAME=value`. */
  variables: readonly string[]
  cwd: string
  /** Our descriptors that become its standard streams; without stdin it reads nothing. */
  stdio: readonly [stdin: number | undefined, stdout: number, stderr: number]
  /** Undefined: the agent's own user. */
  user: { uid: number; gid: number; groups: readonly number[] } | undefined
  /** Its standard input is a terminal that it must control. */
  controlsTerminal: boolean
  /** How soon the kernel kills it when memory runs out; undefined leaves the score unchanged. */
  oomScore: number | undefined
}

/**
 * Throws the failure of the system call, by its name, if there is no process or if it could not execute the
 * program.
 */
export type Spawn = (request: SpawnRequest) => number

const takeTerminal = 0x540e
/**
 * UTF-8 takes at most this many bytes for each unit of a text, and every text has a zero byte and an address.
 */
const bytesPerUnit = 3
const bytesPerText = 9
/** For small parts that are always there. */
const otherBytes = 1024
const bytesPerGroup = 4

export function openSpawn(libc: CLibrary): Spawn {
  const changed = changedSignals(libc)
  const start = openListProcess(libc, (list) => {
    addDefaultSignals(list, changed)
    list.add('setsid')
  })
  return (request) => start(dataBytes(request), (list) => addCalls(list, request))
}

function dataBytes({ program, words, variables, cwd, user }: SpawnRequest): number {
  let units = program.length + cwd.length
  for (const word of words) units += word.length
  for (const variable of variables) units += variable.length
  const texts = (2 + words.length + variables.length) * bytesPerText
  const groups = (user?.groups.length ?? 0) * bytesPerGroup
  return units * bytesPerUnit + texts + groups + otherBytes
}

/**
 * The signals that the agent handles or ignores. The agent starts to handle all of them before its first
 * process at the latest.
 */
function changedSignals(libc: CLibrary): number[] {
  const sigaction = libc.func('int sigaction(int signal, const void *action, void *old)')
  const action = Buffer.alloc(256)
  return ordinarySignals.filter((signal) => {
    action.fill(0)
    // The struct begins with the handler or a value for it; all zero is the default.
    return sigaction(signal, null, action) !== 0 || action.readBigUInt64LE() !== 0n
  })
}

/** The order matters: calls that need privileges or a free descriptor come first. */
function addCalls(list: CallList, { program, words, variables, cwd, user, ...request }: SpawnRequest): void {
  if (request.oomScore !== undefined) addOomScore(list, request.oomScore)
  addStreams(list, request.stdio)
  if (request.controlsTerminal) list.add('ioctl', 0, takeTerminal, 1)
  if (user) {
    const groups = [user.gid, ...user.groups]
    list.add('setgroups', groups.length, list.bytes(Buffer.from(new Uint32Array(groups).buffer)))
    list.add('setresgid', user.gid, user.gid, user.gid)
    list.add('setresuid', user.uid, user.uid, user.uid)
  }
  // With the user's rights: the process must not be in a folder that the user may not enter.
  list.add('chdir', list.text(cwd))
  addSignalMask(list)
  const argv = list.addresses(words.map((word) => list.text(word)))
  const envp = list.addresses(variables.map((variable) => list.text(variable)))
  list.add('execve', list.text(program), argv, envp)
}

/** Always empty, so all processes can share it. */
let emptyInput: number | undefined

function addStreams(list: CallList, [stdin, stdout, stderr]: SpawnRequest['stdio']): void {
  emptyInput ??= openSync('/dev/null', 'r')
  list.add('dup3', stdin ?? emptyInput, 0)
  list.add('dup3', stdout, 1)
  list.add('dup3', stderr, 2)
}
