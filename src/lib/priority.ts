/**
 * Gives the thread of the event loop a higher priority than the programs and threads that it starts: every request waits
 * for it, and a burst of boots starts hundreds of programs. On Linux each thread has a priority, which the programs and
 * threads that it starts inherit. So these are started with the original priority of this process.
 *
 * That priority counts only within a group of processes that the kernel's scheduler treats as one. The scheduler weighs the
 * groups of the sandboxes against the group of this process: its own cgroup or, if it has none, its session (`autogroup`). So
 * the session's priority is raised as well.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'
import { isMissing } from './if-present.ts'

/** Steps of niceness: with them, one thread gets about as much CPU as five others. */
const ahead = 7
/**
 * With this niceness the session weighs as much as nine others. The value is absolute: a server that was killed could not
 * reset its session, and with a relative value the next server of that session would raise it further.
 */
const raisedSession = -10

/** Linux has it only where it groups processes by session. */
const sessionFile = '/proc/self/autogroup'

let usual: number | undefined
let usualOfSession: number | undefined

/** Call it in the thread of the event loop. Returns the reason if the priority cannot be raised here. */
export function raisePriority(): string | undefined {
  const before = getPriority()
  try {
    setPriority(before - ahead)
    usual = before
    usualOfSession = raiseSession()
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

export function restorePriority(): void {
  if (usual !== undefined) setPriority(usual)
  usual = undefined
  if (usualOfSession !== undefined) writeFileSync(sessionFile, String(usualOfSession))
  usualOfSession = undefined
}

/** Returns the session's previous niceness; undefined if sessions have none. */
function raiseSession(): number | undefined {
  const before = sessionNiceness()
  if (before === undefined) return undefined
  writeFileSync(sessionFile, String(Math.min(before, raisedSession)))
  return before
}

/** The file has one line, `/autogroup-128 nice 0`. It is empty if the kernel has made no group for the session. */
export function sessionNiceness(): number | undefined {
  try {
    const niceness = / nice (-?\d+)$/m.exec(readFileSync(sessionFile, 'utf8'))?.[1]
    return niceness === undefined ? undefined : Number(niceness)
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

/** Calls `start` with the original priority. `start` must start its program or thread before it returns. */
export function atUsualPriority<T>(start: () => T): T {
  if (usual === undefined) return start()
  setPriority(usual)
  try {
    return start()
  } finally {
    setPriority(usual - ahead)
  }
}
