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

const listing = 'ps -ww -eo pid=,user:32=,pcpu=,rss=,etimes=,args='
/** What `parseProcesses` reads: the processes, then the environments of those that tools started to look into the sandbox. */
export const listProcesses = `${listing}; grep -slzx WARREN_LOG=off /proc/[0-9]*/environ; true`
/** The agent and its init: without them the sandbox ends. */
const agentFolder = '/.warren/'

/** The processes of the sandbox's user: neither the agent, nor what the command line and the dashboard run. */
export function parseProcesses(text: string): SandboxProcess[] {
  const rows: SandboxProcess[] = []
  const lines = text.split('\n')
  const tools = new Set(lines.flatMap((line) => /^\/proc\/(\d+)\/environ$/.exec(line)?.[1] ?? []))
  for (const line of lines) {
    const match = /^\s*(\d+)\s+(\S+)\s+([\d.]+)\s+(\d+)\s+(\d+)\s+(.*)$/.exec(line)
    if (!match) continue
    const [, pid, user, cpu, kilobytes, seconds, command] = match
    if (tools.has(pid!) || command === listing || command!.startsWith(agentFolder)) continue
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
