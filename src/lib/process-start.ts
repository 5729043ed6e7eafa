import { readFileSync } from 'node:fs'

/** States of a process that has ended and whose parent has not asked how: a zombie, and one that is being removed. */
const endedStates = new Set(['Z', 'X', 'x'])

/**
 * When the running process with this pid began, in ticks since boot: it tells a process from a later one with the same pid.
 * Undefined if none runs, also if only its zombie is left, which stays for good where nobody reaps orphans.
 */
export function processStart(pid: number): string | undefined {
  const stat = readStat(pid)
  // The name before the last bracket may contain anything.
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields && !endedStates.has(fields[0]!) ? fields[19] : undefined
}

function readStat(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // ESRCH: the process ended while it was being read.
    if (code === 'ENOENT' || code === 'ESRCH') return undefined
    throw error
  }
}
