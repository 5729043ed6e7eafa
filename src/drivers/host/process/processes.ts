/**
 * Finds our programs that outlived the Warren that started them. They are identified with certainty: they
 * belong to the host's root, which no process of a sandbox does, and have arguments that only our own command
 * lines have, word for word.
 */
import { readFileSync, statSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { isMissing } from '../../../lib/if-present.ts'
import { untilKilled } from './kill-processes.ts'

/** Adjacent arguments of our command lines that no other command line has. */
export type ArgumentMark = readonly [option: string, value: string]

export async function findMarked(marks: readonly ArgumentMark[]): Promise<{ pid: number; args: string[] }[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const found = await Promise.all(pids.map((pid) => describe(pid)))
  return found
    .filter((each) => each !== undefined)
    .filter(({ args }) => marks.some((mark) => has(args, mark)))
}

/** Kills until none is left; rejects if one does not die. */
export function killMarked(marks: readonly ArgumentMark[], signal?: AbortSignal): Promise<void> {
  const search = {
    find: async () => (await findMarked(marks)).map(({ pid }) => pid),
    confirm: (pids: readonly number[]) => pids.filter((pid) => isMarked(pid, marks)),
  }
  return untilKilled(`Programs that work on ${marks[0]![1]}`, search, { ...(signal && { signal }) })
}

const has = (args: string[], [option, value]: ArgumentMark): boolean =>
  args.some((arg, at) => arg === option && args[at + 1] === value)

const argumentsIn = (commandLine: string): string[] => commandLine.split('\0')

/** Undefined for this process, one of another user, or an ended one. */
async function describe(pid: number): Promise<{ pid: number; args: string[] } | undefined> {
  if (pid === process.pid) return undefined
  try {
    if ((await stat(`/proc/${pid}`)).uid !== 0) return undefined
    return { pid, args: argumentsIn(await readFile(`/proc/${pid}/cmdline`, 'utf8')) }
  } catch (error) {
    if (hasEnded(error)) return undefined
    throw error
  }
}

/** Checks one process synchronously. */
function isMarked(pid: number, marks: readonly ArgumentMark[]): boolean {
  try {
    if (statSync(`/proc/${pid}`).uid !== 0) return false
    const args = argumentsIn(readFileSync(`/proc/${pid}/cmdline`, 'utf8'))
    return marks.some((mark) => has(args, mark))
  } catch (error) {
    if (hasEnded(error)) return false
    throw error
  }
}

/** ESRCH: the process ended while its command line was being read. */
const hasEnded = (error: unknown): boolean =>
  isMissing(error) || (error as NodeJS.ErrnoException).code === 'ESRCH'
