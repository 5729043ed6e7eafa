/** The host's view of a sandbox's processes. */
import { readdirSync, readFileSync } from 'node:fs'

/** Everything in the sandbox's cgroup, and the runtime's own processes that name it. */
export function processesOf(sandboxID: string): number[] {
  const numbers = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const names = (pid: string) => readProc(pid, 'cgroup') + readProc(pid, 'cmdline')
  return numbers.filter((pid) => names(pid).includes(sandboxID)).map(Number)
}

export function argumentsOf(pid: number): string[] {
  return readProc(pid, 'cmdline').split('\0').slice(0, -1)
}

/** Memory that the process shares with nobody, in MB. */
export function privateMB(pid: number): number {
  const text = readProc(pid, 'smaps_rollup')
  const kB = [...text.matchAll(/^Private_(?:Clean|Dirty):\s+(\d+) kB$/gm)].map((match) => Number(match[1]))
  return kB.reduce((sum, part) => sum + part, 0) / 1024
}

/** Resident memory, shared pages included, in MB. */
export function residentMB(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readProc(pid, 'status'))?.[1] ?? Number.NaN) / 1024
}

/** Empty for a process that has ended. */
function readProc(pid: string | number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}
