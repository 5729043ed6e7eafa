/** Lifecycle events: one for each change of a sandbox that its team's clients can see. */
import type { Sandbox, SandboxState } from '../sandbox/row/sandbox.ts'

const eventTypes = ['created', 'updated', 'paused', 'resumed', 'checkpointed', 'killed'] as const
export type EventType = (typeof eventTypes)[number]

export type LifecycleEvent = {
  eventID: string
  /** Counts the events of a sandbox from 1, without gaps, so that their order does not depend on a clock. */
  number: number
  type: EventType
  sandboxID: string
  teamID: string
  templateID: string
  buildID: string
  runID: string
  /** The event's data as sent to clients, with the field names of the wire. */
  data: Record<string, unknown>
  at: number
}

/** The event for each change of state. Clients see no other changes of state. */
const eventOfTransitions: Partial<Record<`${SandboxState} ${SandboxState}`, EventType>> = {
  'creating running': 'created',
  'pausing paused': 'paused',
  // Back to its stored snapshot, because it was gone before all its memory had arrived.
  'running paused': 'paused',
  'snapshotting paused': 'paused',
  'resuming running': 'resumed',
  'running killing': 'killed',
  'pausing killing': 'killed',
  'paused killing': 'killed',
  'snapshotting killing': 'killed',
  'resuming killing': 'killed',
}

/** Undefined for a sandbox that ends while it is created: its team never saw it, so its end is no event. */
export function eventOfTransition(from: SandboxState, to: SandboxState): EventType | undefined {
  return eventOfTransitions[`${from} ${to}`]
}

/** The cause of an event, in addition to the sandbox's row. */
export type EventCause = {
  type: EventType
  /** The state in which the event happened. */
  from: SandboxState
  at: number
  /** For `updated`: the part that was changed. */
  changed?: 'timeout' | 'network'
}

export function eventData(sandbox: Sandbox, cause: EventCause): Record<string, unknown> {
  const { metadata, endAt, endReason } = sandbox
  const { type, changed } = cause
  return {
    sandbox_metadata: metadata,
    ...(changed === 'timeout' && { set_timeout: new Date(endAt).toISOString() }),
    // The rules themselves are left out: they may hold credentials.
    ...(changed === 'network' && { set_network: true }),
    ...((type === 'paused' || type === 'killed') && executionOf(sandbox, cause)),
    ...(type === 'killed' && { reason: endReason }),
  }
}

/** The run that ends with this event. A paused sandbox that ends has reported its run when it was paused. */
function executionOf({ startedAt, cpuCount, memoryMB }: Sandbox, { from, at }: EventCause): object {
  if (!(from === 'running' || from === 'pausing' || from === 'snapshotting')) return {}
  return {
    execution: {
      started_at: new Date(startedAt).toISOString(),
      vcpu_count: cpuCount,
      memory_mb: memoryMB,
      execution_time: Math.max(0, at - startedAt),
    },
  }
}
