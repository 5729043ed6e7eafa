/**
 * The only update of a sandbox's row: compare and set, with the event of the change in the same transaction.
 */
import { type Kysely, sql, type Transaction, type Updateable } from 'kysely'
import { type EventCause, type EventType, eventOfTransition } from '../../core/event/event.ts'
import type { Sandbox, SandboxState } from '../../core/sandbox/row/sandbox.ts'
import type { NamedChange, SandboxChanges } from '../../core/sandbox/row/sandbox-store.ts'
import { AppError } from '../../lib/app-error.ts'
import type { SandboxRow, Tables } from '../database/tables.ts'
import { runAndCommit, runTogether } from '../database/together.ts'
import { insertingEvent, webhooksFor } from '../event/event-insert.ts'
import { isMovable } from './sandbox-queries.ts'

/** The conditions that the row must meet. */
type RowFence = {
  sandboxID: string
  nodeID: string
  runID?: string
  from: readonly SandboxState[]
  endAt?: number
  endsBefore?: number
  /** The version of the row that the caller read. */
  version?: number | undefined
  /** The snapshot as the row has it, in JSON. */
  saved?: string
  /** No other node may take the sandbox over. */
  isUnmovable?: true
  /** A drain has paused the sandbox, and it is to run again. */
  isToRun?: true
}

export type RowUpdate = {
  fence: RowFence
  columns: Updateable<SandboxRow>
  /** Whoever has the turn need not know of the change. */
  keepsVersion?: true
  named: NamedChange | undefined
  /** Undefined if clients cannot see the change. */
  news: Pick<EventCause, 'type' | 'changed'> | undefined
}

export async function updateSandbox(
  db: Kysely<Tables>,
  update: RowUpdate,
  read: (row: SandboxRow) => Sandbox,
): Promise<Sandbox | undefined> {
  if (update.named && update.news) {
    return db
      .transaction()
      .execute((transaction) => updateWithEvents(transaction, update, read, { thenCommit: true }))
  }
  const row = await updatingRow(db, update).executeTakeFirst()
  return row && read(row)
}

/** Updates first: that locks the row, so that the events of a sandbox get consecutive numbers. */
export async function updateWithEvents(
  transaction: Transaction<Tables>,
  update: RowUpdate,
  read: (row: SandboxRow) => Sandbox,
  { thenCommit = false } = {},
): Promise<Sandbox | undefined> {
  const { named, news, fence } = update
  if (!named || !news) {
    const row = await updatingRow(transaction, update).executeTakeFirst()
    return row && read(row)
  }
  const [updated, webhooks] = await runTogether(transaction, [
    updatingRow(transaction, update),
    webhooksFor(transaction, fence.sandboxID),
  ])
  const row = updated.rows[0]
  if (!row) return undefined
  const sandbox = read(row)
  const { transitionID: eventID, at } = named
  const cause = { ...news, eventID, at, number: row.event_count, from: fence.from[0]! }
  const inserts = insertingEvent(transaction, sandbox, cause, webhooks.rows)
  await (thenCommit ? runAndCommit : runTogether)(transaction, inserts)
  return sandbox
}

/** Every change that the holder of a turn must know of sets it. */
export const nextVersion = { version: sql<number>`version + 1` }

function updatingRow(db: Kysely<Tables>, { fence, columns, keepsVersion, named, news }: RowUpdate) {
  const { sandboxID, nodeID, runID, from, endAt, endsBefore, version, saved, isUnmovable, isToRun } = fence
  let update = db
    .updateTable('sandboxes')
    .set({ ...columns, ...(named && { move_id: named.transitionID }) })
    .where('id', '=', sandboxID)
    .where('state', 'in', from)
    .where('node_id', '=', nodeID)
  if (named && news) update = update.set({ event_count: sql`event_count + 1` })
  if (!keepsVersion) update = update.set(nextVersion)
  if (version !== undefined) update = update.where('version', '=', version)
  if (runID !== undefined) update = update.where('run_id', '=', runID)
  if (endAt !== undefined) update = update.where('end_at', '=', endAt)
  if (endsBefore !== undefined) update = update.where('end_at', '<', endsBefore)
  if (saved !== undefined) update = update.where('saved', '=', saved)
  if (isToRun) update = update.where('run_until', 'is not', null)
  if (isUnmovable) update = update.where((where) => where.not(isMovable(where)))
  return update.returningAll()
}

/** The event of a move. It must be the same for all of these source states. */
export function newsOfTransition(
  from: readonly SandboxState[],
  to: SandboxState,
  changes: SandboxChanges,
): { type: EventType } | undefined {
  if (changes.isCheckpointed) return { type: 'checkpointed' }
  const types = new Set(from.map((state) => eventOfTransition(state, to)))
  if (types.size > 1) {
    throw new AppError('internal', `A move to ${to} must say from which state: ${from.join(', ')}`)
  }
  const [type] = types
  return type && { type }
}
