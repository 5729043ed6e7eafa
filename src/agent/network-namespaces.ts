/**
 * GET /network-namespaces: whether a thread has a network namespace other than the agent's. gVisor restores those without
 * their network, so the control plane asks before it takes a snapshot of the memory.
 */
import { readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'

/** The look is not interrupted, so it is bounded: with this many threads it takes a fraction of a second. */
const threadsLooked = 10_000

/** The codes of a process or thread that ended meanwhile. */
const ended = ['ENOENT', 'ESRCH']

/** `unknown` if there are more threads, or if the namespace of one could not be read. */
export function findOtherNetworks(
  procFolder = '/proc',
  maxThreads = threadsLooked,
): 'none' | 'some' | 'unknown' {
  try {
    const own = readlinkSync(join(procFolder, 'self/ns/net'))
    let left = maxThreads
    for (const pid of numbersIn(procFolder)) {
      for (const thread of numbersIn(join(procFolder, pid, 'task'))) {
        if (left-- === 0) return 'unknown'
        const network = unlessEnded(() => readlinkSync(join(procFolder, pid, 'task', thread, 'ns/net')))
        if (network !== undefined && network !== own) return 'some'
      }
    }
    return 'none'
  } catch {
    return 'unknown'
  }
}

const numbersIn = (folder: string): string[] =>
  unlessEnded(() => readdirSync(folder))?.filter((name) => /^\d+$/.test(name)) ?? []

function unlessEnded<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (ended.includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
}
