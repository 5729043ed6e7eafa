/** Processes that outlived whoever started them, found by what their command line names. */
import { readdir, readFile } from 'node:fs/promises'
import { delay } from '../../lib/clock.ts'
import { killNow } from './cgroups.ts'

export async function processesNaming(path: string): Promise<{ pid: number; args: string[] }[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const commands = await Promise.all(
    pids.map(async (pid) => ({ pid, line: await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '') })),
  )
  return commands
    .filter(({ pid, line }) => pid !== process.pid && line.includes(path))
    .map(({ pid, line }) => ({ pid, args: line.split('\0') }))
}

/** Kills until none is left; the path must be one that only our own short-lived programs name. */
export async function killProcessesNaming(path: string): Promise<void> {
  for (;;) {
    const found = await processesNaming(path)
    if (found.length === 0) return
    for (const { pid } of found) killNow(pid)
    await delay(5)
  }
}
