/** What programs inside a sandbox print about it. It is hostile text: read within bounds, and shown as text. */

const maxRows = 500

export type SandboxProcess = {
  pid: number
  user: string
  cpuPct: number
  memoryBytes: number
  ageMs: number
  command: string
}

/** What `parseProcesses` reads. */
export const listProcesses = 'ps -ww -eo pid=,user:32=,pcpu=,rss=,etimes=,args='

export function parseProcesses(text: string): SandboxProcess[] {
  const rows: SandboxProcess[] = []
  for (const line of text.split('\n')) {
    const match = /^\s*(\d+)\s+(\S+)\s+([\d.]+)\s+(\d+)\s+(\d+)\s+(.*)$/.exec(line)
    if (!match) continue
    const [, pid, user, cpu, kilobytes, seconds, command] = match
    rows.push({
      pid: Number(pid),
      user: user!,
      cpuPct: Number(cpu),
      memoryBytes: Number(kilobytes) * 1024,
      ageMs: Number(seconds) * 1000,
      command: command!,
    })
    if (rows.length === maxRows) break
  }
  return rows
}

/** Ports that listen, out of the text of /proc/net/tcp and tcp6, smallest first. */
export function parseListening(text: string): number[] {
  const ports = new Set<number>()
  for (const line of text.split('\n')) {
    const match = /^\s*\d+:\s+[0-9A-F]+:([0-9A-F]{4})\s+\S+\s+0A\s/i.exec(line)
    if (match) ports.add(Number.parseInt(match[1]!, 16))
    if (ports.size === maxRows) break
  }
  return [...ports].sort((a, b) => a - b)
}
