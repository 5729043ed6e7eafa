/** The host's view of processes, those of a sandbox first. */
import { readdirSync, readFileSync } from 'node:fs'
import { openCgroups } from '../../src/drivers/host/process/cgroups.ts'

/** Everything in the sandbox's cgroup, and the runtime's own processes that name it. */
export function processesOf(sandboxID: string): number[] {
  const numbers = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const names = (pid: string) => readProc(pid, 'cgroup') + readProc(pid, 'cmdline')
  return numbers.filter((pid) => names(pid).includes(sandboxID)).map(Number)
}

export function argumentsOf(pid: number): string[] {
  return readProc(pid, 'cmdline').split('\0').slice(0, -1)
}

/**
 * Memory that the process has written and shares with nobody, in MB. Pages of a program's file are not in it:
 * every sandbox maps the same file.
 */
export function privateMB(pid: number): number {
  const kB = /^Private_Dirty:\s+(\d+) kB$/m.exec(readProc(pid, 'smaps_rollup'))?.[1]
  return Number(kB ?? 0) / 1024
}

/**
 * The largest process but for the runtime's own: where a sandbox is idle, that is the agent. Under gVisor it is the
 * host's process that carries the agent's memory.
 */
export function agentOf(sandboxID: string): number {
  const guests = processesOf(sandboxID).filter((pid) => !argumentsOf(pid)[0]?.startsWith('runsc-'))
  const [agent] = guests.sort((a, b) => privateMB(b) - privateMB(a))
  if (agent === undefined) throw new Error(`sandbox ${sandboxID} has no process`)
  return agent
}

/** Memory charged to the sandbox's cgroup, file cache left out, in MB. */
export async function chargedMB(sandboxID: string): Promise<number> {
  const groups = processesOf(sandboxID).flatMap((pid) => readProc(pid, 'cgroup').split('\n'))
  const group = groups.find((line) => line.includes(sandboxID) && /^\d+:(.*\bmemory\b.*)?:/.test(line))
  if (!group) throw new Error(`sandbox ${sandboxID} has no cgroup`)
  const { memoryUsedBytes } = await openCgroups().use(group.split(':').slice(2).join(':'))
  return memoryUsedBytes / 1024 / 1024
}

/** What the machine could still give to programs, in MB. */
export function availableMB(): number {
  return Number(/^MemAvailable:\s+(\d+) kB$/m.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1]) / 1024
}

/** Resident memory, shared pages included, in MB. */
export function residentMB(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readProc(pid, 'status'))?.[1] ?? Number.NaN) / 1024
}

export const parentOf = (pid: number): number => Number(statOf(pid)[1])

/** CPU time of a process and of all that it has started itself, those that have ended included, in milliseconds. */
export function familyMs(pid: number): number {
  const numbers = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const family = numbers
    .map(statOf)
    .filter((stat, at) => Number(numbers[at]) === pid || Number(stat[1]) === pid)
  // The kernel counts in hundredths of a second.
  return family.reduce((sum, stat) => sum + 10 * cpuTicks(stat), 0)
}

/** In user mode and in the kernel, its own, and those of its children that have ended. */
const cpuTicks = (stat: readonly string[]): number =>
  stat.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0)

/** The fields from the state on: before it comes the name, which may hold anything. */
function statOf(pid: string | number): string[] {
  const text = readProc(pid, 'stat')
  return text.slice(text.lastIndexOf(')') + 2).split(' ')
}

/** Empty for a process that has ended. */
function readProc(pid: string | number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}
