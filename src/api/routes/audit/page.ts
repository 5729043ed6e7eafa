import type { FastifyReply } from 'fastify'
import type { Static } from 'typebox'
import { header } from '../../../contract/constants.ts'
import type { AuditEntry, AuditQuery } from '../../../contract/rest/audit.ts'
import type { AuditLine } from '../../../core/audit/audit-line.ts'
import type { AuditFilter } from '../../../core/audit/audit-store.ts'
import type { RouteContext } from '../../context.ts'
import { cutPage, decodeCursor, encodeCursor } from '../../paging.ts'
import { dateTime } from '../../present.ts'

type Query = Static<typeof AuditQuery>

const defaultLimit = 100

export function filterOf(query: Query, teamID: string | undefined): AuditFilter {
  const { person: personID, action, object, from, to } = query
  const bounds = { from: from && Date.parse(from), to: to && Date.parse(to) } as AuditFilter
  return { teamID, personID, action, object, ...bounds }
}

export async function sendPage(
  { auditLines }: Pick<RouteContext, 'auditLines'>,
  reply: FastifyReply,
  filter: AuditFilter,
  { limit = defaultLimit, nextToken, orderAsc = false }: Query,
): Promise<AuditEntry[]> {
  const order = orderAsc ? 'asc' : 'desc'
  const cursor = nextToken === undefined ? undefined : decodeCursor(nextToken, order)
  const after = cursor && { at: cursor.at, lineID: cursor.id }
  const { page, last } = cutPage(await auditLines.list(filter, { order, limit: limit + 1, after }), limit)
  if (last) reply.header(header.nextToken, encodeCursor({ at: last.at, id: last.lineID }, order))
  return page.map(presentAudit)
}

export function presentAudit(line: AuditLine): AuditEntry {
  const { teamID, personID, person, credentialID, object, status } = line
  return {
    id: line.lineID,
    at: dateTime(line.at),
    ...(teamID !== null && { teamID }),
    ...(personID !== null && { personID }),
    ...(person !== null && { person }),
    credential: line.credential,
    ...(credentialID !== null && { credentialID }),
    address: line.address,
    action: line.action,
    ...(object !== null && { object }),
    requestID: line.requestID,
    ...(status !== null && { status }),
  }
}
