/**
 * Writes an event and its deliveries to the team's webhooks, within the transaction that changes the sandbox.
 */
import type { Compilable, Transaction } from 'kysely'
import { type EventCause, type EventType, eventData } from '../../core/event/event.ts'
import type { Sandbox } from '../../core/sandbox/row/sandbox.ts'
import { payloadOf } from '../../core/webhook/payload.ts'
import { newUUID } from '../../lib/ids.ts'
import type { Tables, WebhookRow } from '../database/tables.ts'

type Receiver = Pick<WebhookRow, 'id' | 'events'>

/** The enabled webhooks of the sandbox's team. Most teams have none. */
export const webhooksFor = (transaction: Transaction<Tables>, sandboxID: string) =>
  transaction
    .selectFrom('webhooks')
    .select(['id', 'events'])
    .where('team_id', '=', ({ selectFrom }) =>
      selectFrom('sandboxes').select('sandboxes.team_id').where('sandboxes.id', '=', sandboxID),
    )
    .where('is_enabled', '=', 1)
    .orderBy('id')

/** The statements that insert the event, and one delivery for each webhook that asks for such events. */
export function insertingEvent(
  transaction: Transaction<Tables>,
  sandbox: Sandbox,
  { eventID, number, ...cause }: EventCause & { eventID: string; number: number },
  webhooks: readonly Receiver[],
): Compilable[] {
  const { sandboxID, teamID, templateID, buildID, runID } = sandbox
  const { type, at } = cause
  const data = eventData(sandbox, cause)
  const event = transaction.insertInto('sandbox_events').values({
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
  const wanted = webhooks.filter(({ events }) => (JSON.parse(events) as EventType[]).includes(type))
  if (wanted.length === 0) return [event]
  const body = payloadOf({ eventID, number, type, sandboxID, teamID, templateID, buildID, runID, data, at })
  const deliveries = wanted.map(({ id }) => ({
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
  return [event, transaction.insertInto('webhook_deliveries').values(deliveries)]
}
