/**
 * The thread of the event loop comes before the programs and threads that it starts: everybody's requests wait for it,
 * and a burst of boots starts hundreds of them. Linux keeps a priority for each thread and hands it on to what the thread
 * starts, so that is started at the one this process was started with.
 *
 * That counts only within the group of processes that the kernel's scheduler weighs as one. The groups of the sandboxes
 * are weighed against the group of this process: its own cgroup or, where it has none, its session (`autogroup`). So the
 * session is raised as well.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'
import { isMissing } from './if-present.ts'

/** Steps of niceness: with them, one thread gets about as much CPU as five others. */
const ahead = 7
/**
 * With this niceness the session weighs as much as nine others. It does not depend on the niceness before: a server that
 * was killed could not give its session back, and the next one of that session would raise it further.
 */
const raisedSession = -10

/** Linux has it only where it groups processes by session. */
const sessionFile = '/proc/self/autogroup'

let usual: number | undefined
let usualOfSession: number | undefined

/** To be called by the thread of the event loop. Gives back why it cannot be done here. */
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

/** Gives back the session's niceness before; undefined where sessions have none. */
function raiseSession(): number | undefined {
  const before = sessionNiceness()
  if (before === undefined) return undefined
  writeFileSync(sessionFile, String(Math.min(before, raisedSession)))
  return before
}

/** The file has one line, `/autogroup-128 nice 0`, and none in a session that the kernel has made no group for. */
export function sessionNiceness(): number | undefined {
  try {
    const niceness = / nice (-?\d+)$/m.exec(readFileSync(sessionFile, 'utf8'))?.[1]
    return niceness === undefined ? undefined : Number(niceness)
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

/** For `start` that starts a program or a thread before it returns. */
export function atUsualPriority<T>(start: () => T): T {
  if (usual === undefined) return start()
  setPriority(usual)
  try {
    return start()
  } finally {
    setPriority(usual - ahead)
  }
}
