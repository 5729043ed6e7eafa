/** What the log of a sandbox tells of its life. */
import type { LogEntry } from '../logs.ts'
import type { EndReason, Sandbox } from './sandbox.ts'

export function createdEntry({ createdAt, templateID, alias, timeoutMs }: Sandbox): LogEntry {
  return {
    at: createdAt,
    level: 'info',
    message: `Sandbox created from template ${alias ?? templateID} for ${timeoutMs / 1000} s`,
    fields: { logger: 'sandbox', event_type: 'sandbox_created', template_id: templateID },
  }
}

const endTexts: Record<EndReason, string> = {
  killed: 'killed',
  timeout: 'its time was over',
  lost: 'it was gone from the machine',
  create_failed: 'it could not be created',
}

export function endedEntry(at: number, reason: EndReason): LogEntry {
  return {
    at,
    level: 'info',
    message: `Sandbox ended: ${endTexts[reason]}`,
    fields: { logger: 'sandbox', event_type: 'sandbox_ended', reason },
  }
}
