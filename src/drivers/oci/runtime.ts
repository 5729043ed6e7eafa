/** The two runtimes' command lines and what they leave behind. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Layout } from './layout.ts'
import type { RuntimeName, SandboxRecord } from './records.ts'

export type Runtime = {
  name: RuntimeName
  binary: string
  /** gVisor's way to catch system calls; runc has none. */
  platform?: string | undefined
}

export const pidFileName = 'pid'
export const logFileName = 'runtime.log'

/** Starts the container and returns as soon as its first process runs; the container then has no parent. */
export function runArguments(runtime: Runtime, layout: Layout, { sandboxID, slot }: SandboxRecord): string[] {
  const folder = layout.sandbox(sandboxID)
  const log = ['--log', join(folder, logFileName), '--log-format', 'json']
  const place = ['--bundle', folder, '--pid-file', join(folder, pidFileName), sandboxID]
  return [
    runtime.binary,
    ...['--root', layout.runtimeState(slot)],
    ...log,
    ...gvisorFlags(runtime),
    ...['run', '--detach'],
    ...runcFlags(runtime),
    ...place,
  ]
}

function gvisorFlags(runtime: Runtime): string[] {
  if (runtime.name !== 'runsc') return []
  return [
    `--platform=${runtime.platform ?? 'systrap'}`,
    '--network=sandbox',
    // What is written must lie in our overlay, where the disk limit holds and a checkpoint finds it.
    '--overlay2=none',
    '--allow-suid',
    '--host-uds=none',
  ]
}

/** A session keyring per sandbox would run into the per-user quota; the keyring calls are closed anyway. */
function runcFlags(runtime: Runtime): string[] {
  return runtime.name === 'runc' ? ['--no-new-keyring'] : []
}

/** The runtime's own words about why it failed: the last error line of its log. */
export async function runtimeComplaint(folder: string): Promise<string | undefined> {
  const text = await readFile(join(folder, logFileName), 'utf8').catch(() => '')
  const lines = text.trim().split('\n').reverse()
  for (const line of lines) {
    try {
      const entry = JSON.parse(line) as { level?: string; msg?: string }
      if (entry.msg && /^(error|fatal|warn)/.test(entry.level ?? '')) return entry.msg
    } catch {
      // A line cut off by a crash says nothing.
    }
  }
  return undefined
}

export async function startedPid(folder: string): Promise<number | undefined> {
  const text = await readFile(join(folder, pidFileName), 'utf8').catch(() => '')
  return Number(text) || undefined
}
