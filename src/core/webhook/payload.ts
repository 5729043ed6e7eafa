/** The event as its receivers get it. */
import type { LifecycleEvent } from '../event/event.ts'

/** The names of event types in the first version of the wire format. */
const labels = {
  created: 'create',
  updated: 'update',
  paused: 'pause',
  resumed: 'resume',
  checkpointed: 'checkpoint',
  killed: 'kill',
} as const

/**
 * Identifiers are sent twice: E2B's servers send snake_case, and its documentation said camelCase for a long
 * time, so receivers exist for both.
 */
export function payloadOf(event: LifecycleEvent): string {
  return JSON.stringify({
    version: 'v2',
    id: event.eventID,
    type: wireType(event.type),
    timestamp: new Date(event.at).toISOString(),
    event_category: 'lifecycle',
    event_label: labels[event.type],
    event_data: event.data,
    sandbox_id: event.sandboxID,
    sandbox_execution_id: event.runID,
    sandbox_template_id: event.templateID,
    sandbox_build_id: event.buildID,
    sandbox_team_id: event.teamID,
    eventData: event.data,
    sandboxId: event.sandboxID,
    sandboxExecutionId: event.runID,
    sandboxTemplateId: event.templateID,
    sandboxBuildId: event.buildID,
    sandboxTeamId: event.teamID,
  })
}

export const wireType = (type: LifecycleEvent['type']): `sandbox.lifecycle.${typeof type}` =>
  `sandbox.lifecycle.${type}`
