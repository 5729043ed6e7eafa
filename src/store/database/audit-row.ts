import type { AuditLine } from '../../core/audit/audit-line.ts'

export type AuditLineRow = {
  id: string
  at: number
  team_id: string | null
  person_id: string | null
  person: string | null
  credential: AuditLine['credential']
  credential_id: string | null
  address: string
  action: string
  object: string | null
  request_id: string
  status: number | null
  finished_at: number | null
}

export const auditRow = (line: AuditLine): AuditLineRow => ({
  id: line.lineID,
  at: line.at,
  team_id: line.teamID,
  person_id: line.personID,
  person: line.person,
  credential: line.credential,
  credential_id: line.credentialID,
  address: line.address,
  action: line.action,
  object: line.object,
  request_id: line.requestID,
  status: line.status,
  finished_at: line.finishedAt,
})

export const auditLineOf = (row: AuditLineRow): AuditLine => ({
  lineID: row.id,
  at: row.at,
  teamID: row.team_id,
  personID: row.person_id,
  person: row.person,
  credential: row.credential,
  credentialID: row.credential_id,
  address: row.address,
  action: row.action,
  object: row.object,
  requestID: row.request_id,
  status: row.status,
  finishedAt: row.finished_at,
})
