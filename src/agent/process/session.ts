import { readdirSync, readFileSync } from 'node:fs'

/** Tells all processes of a session that its terminal is gone, as a machine's kernel does itself. */
export function hangUp(session: number): void {
  for (const name of readdirSync('/proc')) {
    const pid = Number(name)
    if (!Number.isInteger(pid) || sessionOf(pid) !== session) continue
    try {
      process.kill(pid, 'SIGHUP')
      // A stopped process receives SIGHUP only when it continues.
      process.kill(pid, 'SIGCONT')
    } catch {}
  }
}

/** Undefined for a process that has ended. */
export function sessionOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The name before the last bracket may contain anything.
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[3])
  } catch {
    return undefined
  }
}
