/**
 * The files that the runtime leaves in the folder of a sandbox: its first pid, its log, and the mark of a
 * running restore.
 */
import { accessSync, readFileSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { delay } from '../../../lib/clock.ts'
import { ifPresentNow } from '../../../lib/if-present.ts'
import { type ArgumentMark, findMarked } from '../../host/process/processes.ts'

export const pidFileName = 'pid'
export const logFileName = 'runtime.log'
/** Exists during a restore: the runtime writes its pid file long before it is done. */
export const restoringName = 'restoring'

/** The arguments that identify a start of the sandbox in this folder. */
export const startMark = (folder: string): ArgumentMark => ['--bundle', folder]

/** The last error in the runtime's log, without the stack below it; undefined if there is none. */
export async function runtimeComplaint(folder: string): Promise<string | undefined> {
  // For a message only: that a start failed is known already.
  const text = await readFile(join(folder, logFileName), 'utf8').catch(() => '')
  const lines = text.trim().split('\n').reverse()
  for (const line of lines) {
    try {
      const entry = JSON.parse(line) as { level?: string; msg?: string }
      if (entry.msg && /^(error|fatal|warn)/.test(entry.level ?? '')) return entry.msg.split('\n')[0]
    } catch {
      // A line that a crash cut off says nothing.
    }
  }
  return undefined
}

/**
 * Undefined if no process of the sandbox has been started. The runtime writes the file in more than one step.
 */
export async function startedPid(folder: string): Promise<number | undefined> {
  return Number(ifPresentNow(() => readFileSync(join(folder, pidFileName), 'utf8')) ?? '') || undefined
}

/**
 * A restore outlives its caller; the state of the sandbox is known only when the restore is over. `finish`: what
 * the caller would have done then.
 */
export async function untilRestored(
  folder: string,
  finish?: () => Promise<void>,
  signal?: AbortSignal,
): Promise<void> {
  if (!(await isRestoring(folder))) return
  while ((await findMarked([startMark(folder)])).some(({ args }) => args.includes('restore'))) {
    await delay(20, signal)
  }
  await finish?.()
  await rm(join(folder, restoringName), { force: true })
}

export async function isRestoring(folder: string): Promise<boolean> {
  const isThere = ifPresentNow(() => {
    accessSync(join(folder, restoringName))
    return true
  })
  return isThere ?? false
}
