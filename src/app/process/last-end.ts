/**
 * Reports how the previous Warren of a data folder ended. A killed process writes nothing to its own log, so
 * the next one does, with the kernel's information.
 */
import { uptime } from 'node:os'
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import { runCommand } from '../../lib/run-command.ts'
import { type DataPaths, readServerFile, type ServerFile } from '../data/data-folder.ts'

const readKernelLogWithinMs = 10_000

/**
 * Call it while holding the data folder's lock: then the process that left its server file behind is dead.
 */
export async function reportLastEnd(paths: DataPaths, clock: Clock, log: Log): Promise<void> {
  const server = await readServerFile(paths)
  if (!server) return
  const bootedAt = clock.now() - uptime() * 1000
  const said = await runCommand('dmesg', ['--raw'], { timeoutMs: readKernelLogWithinMs }).then(
    ({ stdout }) => stdout,
    () => undefined,
  )
  const { pid, startedAt } = server
  log.warn({ pid, startedAt: new Date(startedAt).toISOString() }, explainLastEnd(server, bootedAt, said))
}

/** `kernelLog` is the output of `dmesg --raw`; undefined if it cannot be read. Times are in milliseconds. */
export function explainLastEnd(
  { pid, startedAt }: Pick<ServerFile, 'pid' | 'startedAt'>,
  bootedAt: number,
  kernelLog: string | undefined,
): string {
  const message = `The Warren that served this data folder before (process ${pid}) ended without closing.`
  if (startedAt < bootedAt) return `${message} The machine was restarted meanwhile.`
  if (kernelLog === undefined) {
    return `${message} The kernel's log cannot be read here; check it yourself (dmesg, journalctl -k).`
  }
  const about = linesAbout(kernelLog, pid, startedAt - bootedAt)
  if (about.length > 0) return `${message} The kernel says: ${about.join(' | ')}`
  return `${message} The kernel says nothing about it: somebody killed it (SIGKILL), or it crashed and its log says why.`
}

const maxLines = 5

/** Excludes lines about other processes that had the pid earlier. */
function linesAbout(kernelLog: string, pid: number, sinceBootMs: number): string[] {
  const names = new RegExp(`Killed process ${pid} |[,=]pid=${pid},|\\w\\[${pid}\\]`)
  const found = kernelLog.split('\n').flatMap((line) => {
    const [, seconds, text] = /^<\d+>\[\s*(\d+\.\d+)\]\s*(.*)$/.exec(line) ?? []
    return text !== undefined && Number(seconds) * 1000 >= sinceBootMs && names.test(text) ? [text] : []
  })
  return found.slice(-maxLines)
}
