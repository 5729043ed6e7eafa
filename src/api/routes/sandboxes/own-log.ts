/** What both versions of the log route share. */
import type { FastifyRequest } from 'fastify'
import type { SandboxLogEntry } from '../../../contract/rest/logs.ts'
import type { LogEntry, LogQuery } from '../../../core/ports/logs.ts'
import type { RouteContext } from '../../context.ts'
import { parseSandboxID } from '../../sandbox-id.ts'

export const defaultLogLimit = 1000

/** A sandbox of another team has an empty log, like one that does not exist. */
export async function readOwnLog(
  { auth, sandboxes, logs, loneNode }: RouteContext,
  request: FastifyRequest,
  idText: string,
  query: LogQuery,
): Promise<LogEntry[]> {
  const [own] = await sandboxes.ownedBy(auth.teamOf(request), [parseSandboxID(idText)])
  if (own === undefined || query.limit === 0) return []
  await loneNode?.requireReachable({ kind: 'log', id: own })
  return logs.read(own, query)
}

export function presentEntry({ at, message, level, fields }: LogEntry): SandboxLogEntry {
  return { timestamp: new Date(at).toISOString(), message, level, fields }
}
