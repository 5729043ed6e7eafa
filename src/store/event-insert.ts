/**
 * Writes an event and its deliveries to the team's webhooks, within the transaction that changes the sandbox.
 */
import type { Transaction } from 'kysely'
import { type EventCause, type EventType, eventData, type LifecycleEvent } from '../core/event/event.ts'
import type { Sandbox } from '../core/sandbox/row/sandbox.ts'
import { payloadOf } from '../core/webhook/payload.ts'
import { newUUID } from '../lib/ids.ts'
import type { Tables } from './tables.ts'

export async function tellEvent(
  transaction: Transaction<Tables>,
  sandbox: Sandbox,
  { eventID, number, ...cause }: EventCause & { eventID: string; number: number },
): Promise<void> {
  const { sandboxID, teamID, templateID, buildID, runID } = sandbox
  const { type, at } = cause
  const data = eventData(sandbox, cause)
  const event = { eventID, number, type, sandboxID, teamID, templateID, buildID, runID, data, at }
  const { webhooks } = await transaction
    .insertInto('sandbox_events')
    .values({
      id: eventID,
      team_id: teamID,
      sandbox_id: sandboxID,
      number,
      type,
      template_id: templateID,
      build_id: buildID,
      run_id: runID,
      at,
      data: JSON.stringify(data),
    })
    // Most teams have no webhooks, and then this is the only statement.
    .returning(({ selectFrom }) =>
      selectFrom('webhooks')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .where('webhooks.team_id', '=', teamID)
        .where('is_enabled', '=', 1)
        .as('webhooks'),
    )
    .executeTakeFirstOrThrow()
  if (Number(webhooks) > 0) await insertDeliveries(transaction, event)
}

async function insertDeliveries(transaction: Transaction<Tables>, event: LifecycleEvent): Promise<void> {
  const webhooks = await transaction
    .selectFrom('webhooks')
    .select(['id', 'events'])
    .where('team_id', '=', event.teamID)
    .where('is_enabled', '=', 1)
    .orderBy('id')
    .execute()
  const wanted = webhooks.filter(({ events }) => (JSON.parse(events) as EventType[]).includes(event.type))
  if (wanted.length === 0) return
  const body = payloadOf(event)
  const { eventID, teamID, sandboxID, number, type, at } = event
  const rows = wanted.map(({ id }) => ({
    id: newUUID(),
    webhook_id: id,
    team_id: teamID,
    sandbox_id: sandboxID,
    number,
    event_id: eventID,
    type,
    body,
    status: 'pending' as const,
    attempts: 0,
    created_at: at,
    next_at: at,
    ended_at: null,
    last_status: null,
    last_error: null,
  }))
  await transaction.insertInto('webhook_deliveries').values(rows).execute()
}
