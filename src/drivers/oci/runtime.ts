/** The two runtimes' command lines and what they leave behind. */
import { access, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { delay } from '../../lib/clock.ts'
import type { Layout } from './layout.ts'
import { processesNaming } from './processes.ts'
import type { RuntimeName, SandboxRecord } from './records.ts'

export type Runtime = {
  name: RuntimeName
  binary: string
  /** gVisor's way to catch system calls; runc has none. */
  platform?: string | undefined
}

export const pidFileName = 'pid'
export const logFileName = 'runtime.log'
/** There while memory is being read back: the runtime writes its pid file long before it is done. */
export const restoringName = 'restoring'

/** Direct: read past the page cache, which counts as the sandbox's own memory. */
export type MemorySource = { folder: string; direct: boolean }

const directFlag = (direct: boolean): string[] => (direct ? ['--direct'] : [])

/**
 * Starts the container, or lets it go on from a folder with its memory, and returns as soon as its first process
 * runs; the container then has no parent.
 */
export function startArguments(layout: Layout, record: SandboxRecord, memory?: MemorySource): string[] {
  const folder = layout.sandbox(record.sandboxID)
  const place = ['--bundle', folder, '--pid-file', join(folder, pidFileName), record.sandboxID]
  const verb = memory
    ? ['restore', '--detach', '--background', ...directFlag(memory.direct), '--image-path', memory.folder]
    : ['run', '--detach', ...runcFlags(record)]
  return [...command(layout, record), ...verb, ...place]
}

/** For gVisor only: the whole sandbox stands still, while its kernel can still be spoken to. */
export const pauseArguments = (layout: Layout, record: SandboxRecord): string[] => [
  ...command(layout, record),
  ...['pause', record.sandboxID],
]

export const resumeArguments = (layout: Layout, record: SandboxRecord): string[] => [
  ...command(layout, record),
  ...['resume', record.sandboxID],
]

/** Nobody inside may set the host name, so the program gets that power from outside. */
export const renameArguments = (
  layout: Layout,
  record: SandboxRecord,
  setHostname: readonly string[],
): string[] => [
  ...command(layout, record),
  ...['exec', '--cap', 'CAP_SYS_ADMIN', record.sandboxID, ...setHostname, record.sandboxID],
]

/** `leave-running` always: without it a checkpoint that fails takes the sandbox with it. */
export function checkpointArguments(
  layout: Layout,
  record: SandboxRecord,
  memoryFolder: string,
  direct: boolean,
): string[] {
  return [
    ...command(layout, record),
    ...['checkpoint', '--leave-running', '--compression=none', '--exclude-committed-zero-pages'],
    ...directFlag(direct),
    ...['--image-path', memoryFolder, record.sandboxID],
  ]
}

function command(layout: Layout, record: SandboxRecord): string[] {
  const log = join(layout.sandbox(record.sandboxID), logFileName)
  return [
    record.runtimeBinary,
    ...['--root', layout.runtimeState(record.slot), '--log', log, '--log-format', 'json'],
    ...gvisorFlags(record),
  ]
}

function gvisorFlags({ runtime, platform }: SandboxRecord): string[] {
  if (runtime !== 'runsc') return []
  return [
    `--platform=${platform ?? 'systrap'}`,
    '--network=sandbox',
    // What is written must lie in our overlay, where the disk limit holds and a checkpoint finds it.
    '--overlay2=none',
    '--allow-suid',
    '--host-uds=none',
  ]
}

/** A session keyring per sandbox would run into the per-user quota; the keyring calls are closed anyway. */
function runcFlags({ runtime }: SandboxRecord): string[] {
  return runtime === 'runc' ? ['--no-new-keyring'] : []
}

/** The runtime's own words about why it failed: the last error of its log, without the stack below it. */
export async function runtimeComplaint(folder: string): Promise<string | undefined> {
  const text = await readFile(join(folder, logFileName), 'utf8').catch(() => '')
  const lines = text.trim().split('\n').reverse()
  for (const line of lines) {
    try {
      const entry = JSON.parse(line) as { level?: string; msg?: string }
      if (entry.msg && /^(error|fatal|warn)/.test(entry.level ?? '')) return entry.msg.split('\n')[0]
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

/** A restore outlives whoever asked for it; only when it is over can be said what became of the sandbox. */
export async function untilRestored(folder: string, signal?: AbortSignal): Promise<void> {
  if (!(await isRestoring(folder))) return
  while ((await processesNaming(folder)).some(({ args }) => args.includes('restore'))) await delay(20, signal)
  await rm(join(folder, restoringName), { force: true })
}

export const isRestoring = (folder: string): Promise<boolean> =>
  access(join(folder, restoringName)).then(
    () => true,
    () => false,
  )
