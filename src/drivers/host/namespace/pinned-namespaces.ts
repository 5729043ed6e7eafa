/**
 * A process in its own namespaces, which it holds until it is ended or this process dies. User namespaces are
 * made this way: a process with several threads cannot make one, and the kernel accounts for one to the user
 * who made it. The process has our memory and executes no program; it makes a list of calls and waits.
 */
import { closeSync, readSync } from 'node:fs'
import { openCLibrary } from '../../../lib/c-library.ts'
import type { CallList } from '../../../lib/call-list.ts'
import { addCloseFrom, openListClone, systemError } from '../../../lib/list-process.ts'
import { requireAddonFile } from '../../../lib/native.ts'

type PinnedNamespaces = { pid: number; end(): void }

/** CLONE_NEWUSER and CLONE_NEWNET. */
export const pinnedKinds = { user: 0x10000000, network: 0x40000000 } as const

/** AF_UNIX; SOCK_STREAM and SOCK_CLOEXEC. */
const localFamily = 1
const stream = 1 | 0o2000000
/** PR_GET_DUMPABLE and PR_SET_DUMPABLE. */
const getDumpable = 3
const setDumpable = 4
/** The list points at a text of one byte and a byte to read into. */
const dataBytes = 64

const libc = openCLibrary(requireAddonFile('The users of sandboxes cannot be made'))
const socketpair = libc.func('int socketpair(int family, int type, int protocol, void *ends)')
const waitpid = libc.func('int waitpid(int pid, void *status, int options)')
const prctl = libc.func('int prctl(int option, unsigned long value)')
const start = openListClone(libc, () => {})

/** Waits until the namespaces are made, by that user of the host. Only one call runs at a time. */
export function pinNamespaces(kinds: number, owner: number): PinnedNamespaces {
  const wasDumpable = prctl(getDumpable, 0)
  const [ours, theirs] = openPair()
  const { pid, list } = startKeeper(ours, theirs, (list) => addCalls(list, theirs, kinds, owner))
  const end = () => {
    closeSync(ours)
    waitpid(pid, null, 0)
    list.release()
    // A process that changes its user must not be traced by that user, so the kernel lets nobody trace the memory it has.
    if (wasDumpable === 1) prctl(setDumpable, 1)
  }
  try {
    if (readSync(ours, Buffer.alloc(1)) === 1) return { pid, end }
  } catch (error) {
    end()
    throw error
  }
  const failure = list.failure()
  end()
  throw failure ? systemError(failure) : new Error('A signal ended the process that holds namespaces.')
}

function startKeeper(ours: number, theirs: number, add: (list: CallList) => void): ReturnType<typeof start> {
  try {
    return start(dataBytes, add)
  } catch (error) {
    closeSync(ours)
    throw error
  } finally {
    closeSync(theirs)
  }
}

/** The process keeps only its end of the socket pair open, so it notices when we close the other end or die. */
function addCalls(list: CallList, theirs: number, kinds: number, owner: number): void {
  list.add('dup3', theirs, 0)
  addCloseFrom(list, 1)
  if (owner !== 0) {
    list.add('setgroups', 0, 0)
    list.add('setresgid', owner, owner, owner)
    list.add('setresuid', owner, owner, owner)
  }
  list.add('unshare', kinds)
  list.add('write', 0, list.text('.'), 1)
  list.add('read', 0, list.bytes(Buffer.alloc(1)), 1)
  list.add('exit', 0)
}

function openPair(): [ours: number, theirs: number] {
  const ends = Buffer.alloc(8)
  if (socketpair(localFamily, stream, 0, ends) !== 0) {
    throw systemError({ call: 'socketpair', errorNumber: libc.errno() })
  }
  return [ends.readInt32LE(0), ends.readInt32LE(4)]
}
