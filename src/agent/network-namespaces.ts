/**
 * GET /network-namespaces: whether a thread has a network namespace other than the agent's. gVisor restores those without
 * their network, so the control plane asks before it saves memory.
 */
import { readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'

/** The look is not interrupted, so it is bounded: with this many threads it takes a fraction of a second. */
const threadsLooked = 10_000

export function hasOtherNetworks(procFolder = '/proc', mostThreads = threadsLooked): boolean {
  const own = networkOf(join(procFolder, 'self'))
  let left = mostThreads
  for (const pid of numbersIn(procFolder)) {
    for (const thread of numbersIn(join(procFolder, pid, 'task'))) {
      if (left-- === 0) return false
      const network = networkOf(join(procFolder, pid, 'task', thread))
      if (network !== undefined && network !== own) return true
    }
  }
  return false
}

/** Empty for a process that ended meanwhile. */
function numbersIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => /^\d+$/.test(name))
  } catch {
    return []
  }
}

/** Undefined for a thread that ended meanwhile. */
function networkOf(folder: string): string | undefined {
  try {
    return readlinkSync(join(folder, 'ns/net'))
  } catch {
    return undefined
  }
}
