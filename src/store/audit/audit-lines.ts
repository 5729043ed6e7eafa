import type { Kysely } from 'kysely'
import type { AuditLine } from '../../core/audit/audit-line.ts'
import type { AuditFilter, AuditPage, AuditStore } from '../../core/audit/audit-store.ts'
import { auditLineOf, auditRow } from '../database/audit-row.ts'
import type { Tables } from '../database/tables.ts'

/** Limits the number of bound values of one insert to what either engine takes. */
const rowsPerInsert = 500

export class SqlAuditStore implements AuditStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async finish(lines: readonly AuditLine[]): Promise<void> {
    for (let start = 0; start < lines.length; start += rowsPerInsert) {
      const rows = lines.slice(start, start + rowsPerInsert).map(auditRow)
      await this.#db
        .insertInto('audit_lines')
        .values(rows)
        .onConflict((conflict) =>
          conflict.column('id').doUpdateSet(({ ref }) => ({
            object: ref('excluded.object'),
            status: ref('excluded.status'),
            finished_at: ref('excluded.finished_at'),
          })),
        )
        .execute()
    }
  }

  async list(filter: AuditFilter, { order, limit, after }: AuditPage): Promise<AuditLine[]> {
    let query = this.#matching(filter).orderBy('at', order).orderBy('id', order).limit(limit)
    if (after) {
      const beyond = order === 'asc' ? '>' : '<'
      query = query.where((where) =>
        where.or([
          where('at', beyond, after.at),
          where.and([where('at', '=', after.at), where('id', beyond, after.lineID)]),
        ]),
      )
    }
    return (await query.execute()).map(auditLineOf)
  }

  async finishedSince(filter: AuditFilter, since: number, limit: number): Promise<AuditLine[]> {
    const rows = await this.#matching(filter)
      .where('finished_at', '>=', since)
      .orderBy('finished_at')
      .orderBy('at')
      .orderBy('id')
      .limit(limit)
      .execute()
    return rows.map(auditLineOf)
  }

  async prune(before: number, limit: number): Promise<number> {
    const old = this.#db.selectFrom('audit_lines').select('id').where('at', '<', before).limit(limit)
    const deleted = await this.#db.deleteFrom('audit_lines').where('id', 'in', old).executeTakeFirstOrThrow()
    return Number(deleted.numDeletedRows)
  }

  #matching({ teamID, personID, action, object, from, to }: AuditFilter) {
    let query = this.#db.selectFrom('audit_lines').selectAll()
    if (teamID !== undefined) query = query.where('team_id', '=', teamID)
    if (personID !== undefined)
      query = query.where((where) =>
        where.or([where('person_id', '=', personID), where('person', '=', personID)]),
      )
    if (object !== undefined) query = query.where('object', '=', object)
    if (from !== undefined) query = query.where('at', '>=', from)
    if (to !== undefined) query = query.where('at', '<=', to)
    if (action === undefined) return query
    if (!action.endsWith('.')) return query.where('action', '=', action)
    // The character after the dot: all that begin with the action lie before it.
    return query.where('action', '>=', action).where('action', '<', `${action.slice(0, -1)}/`)
  }
}
