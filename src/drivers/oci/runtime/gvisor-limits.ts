/**
 * How many processes a sandbox under gVisor may have. Every process costs threads and memory of the host, and
 * the host's kernel kills a sandbox that runs out of either as a whole. So the limit inside, which only makes
 * `fork` fail, must be reached first. gVisor counts it per user, including threads, and nobody inside may
 * raise it. Root is exempt, because it has CAP_SYS_ADMIN.
 */
import { readFileSync } from 'node:fs'

type PlatformCost = {
  /** Threads of the host for one lasting process, with a margin: 16 and 2 were measured. */
  hostThreads: number
  /** MiB that gVisor itself and the host's kernel need for one process: 0.65 and 0.35 were measured. */
  ownMB: number
}

const costs: Record<string, PlatformCost> = {
  ptrace: { hostThreads: 20, ownMB: 0.65 },
  systrap: { hostThreads: 3, ownMB: 0.35 },
}

/**
 * When processes end and others begin, as in a shell's fork bomb, the host's threads of ended ones exist for
 * a while: this many times as many.
 */
const turnover = 3

/** MiB that gVisor needs before the first process. */
const idleMB = 40
/** Number of users that may be at their limit at once: root and the one that commands run as. */
const users = 2
/** Number of sandboxes that may be at their limit at once before the machine has no threads left. */
const sandboxes = 16

/** Memory in MiB that gVisor itself may use beside the sandbox's own. */
export function gvisorMemoryMB(memoryMB: number): number {
  return Math.max(192, Math.ceil(memoryMB / 4))
}

/** `machine`: threads that the whole machine can have. */
export function gvisorPidsLimits(
  sandbox: { memoryMB: number; platform: string | null; pidsLimit: number },
  machine: number,
): { perUser: number; host: number } {
  const { hostThreads, ownMB } = costs[sandbox.platform ?? ''] ?? costs.ptrace!
  const share = Math.floor(machine / sandboxes)
  const perUser = Math.min(
    Math.ceil(sandbox.pidsLimit / 4),
    Math.floor(share / hostThreads / users),
    Math.floor((gvisorMemoryMB(sandbox.memoryMB) - idleMB) / ownMB),
  )
  return { perUser, host: Math.min(share, turnover * perUser * users * hostThreads + hostThreads * 10) }
}

export function machinePids(): number {
  const read = (name: string) => Number(readFileSync(`/proc/sys/kernel/${name}`, 'utf8'))
  return Math.min(read('pid_max'), read('threads-max'))
}
