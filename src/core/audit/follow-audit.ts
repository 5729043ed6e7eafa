import type { Clock } from '../../lib/clock.ts'
import type { AuditLine } from './audit-line.ts'
import type { AuditFilter, AuditStore } from './audit-store.ts'

const lookAgainMs = 1000
/** Nodes write by their own clocks, and a line appears when its transaction commits: so late it may be. */
const lateByMs = 10_000
const linesPerLook = 500
/** An empty line this often shows proxies that the connection is in use. */
const signOfLifeMs = 15_000

type FollowParts = { auditLines: AuditStore; clock: Clock; signal: AbortSignal; isOver: () => boolean }

/** Yields lines as they get their answers, and undefined as a sign of life, until it is over. */
export async function* followAudit(
  { auditLines, clock, signal, isOver }: FollowParts,
  filter: AuditFilter,
): AsyncGenerator<AuditLine | undefined> {
  const began = clock.now()
  const sent = new Map<string, number>()
  let since = filter.from ?? began
  let aliveAt = began
  while (!signal.aborted && !isOver()) {
    const lines = await auditLines.finishedSince(filter, since, linesPerLook)
    for (const line of lines) {
      if (sent.has(line.lineID)) continue
      sent.set(line.lineID, line.finishedAt ?? began)
      aliveAt = clock.now()
      yield line
    }
    if (lines.length === linesPerLook) {
      const last = lines.at(-1)!.finishedAt ?? since
      since = last > since ? last : since + 1
      continue
    }
    since = Math.max(since, clock.now() - lateByMs)
    for (const [lineID, finishedAt] of sent) if (finishedAt < since) sent.delete(lineID)
    if (clock.now() - aliveAt >= signOfLifeMs) {
      aliveAt = clock.now()
      yield undefined
    }
    await pause(clock, signal)
  }
}

function pause(clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const cancel = clock.after(lookAgainMs, resolve)
    const stop = () => {
      cancel()
      resolve()
    }
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
}
