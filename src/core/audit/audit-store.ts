/** The stored lines of the audit. The stores write the line of a change in the transaction that makes the change. */
import type { AuditLine } from './audit-line.ts'

export type AuditFilter = {
  /** Unset: all teams. */
  teamID?: string | undefined
  /** Or the e-mail address that the person had then. */
  personID?: string | undefined
  /** An action, or all that begin with it, if it ends with a dot. */
  action?: string | undefined
  object?: string | undefined
  /** Both bounds are inclusive, in milliseconds. */
  from?: number | undefined
  to?: number | undefined
}

export type AuditPage = {
  order: 'asc' | 'desc'
  limit: number
  /** The last line of the page before. */
  after?: { at: number; lineID: string } | undefined
}

export interface AuditStore {
  /** Writes the lines, or the answer of those that are there already. */
  finish(lines: readonly AuditLine[]): Promise<void>
  list(filter: AuditFilter, page: AuditPage): Promise<AuditLine[]>
  /** Lines whose answer was written at or after `since`, in this order. */
  finishedSince(filter: AuditFilter, since: number, limit: number): Promise<AuditLine[]>
  /** Removes up to `limit` lines from before `before`, and returns their number. */
  prune(before: number, limit: number): Promise<number>
}
