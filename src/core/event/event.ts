/** What a team is told of the life of its sandboxes: one event for each change that its clients can see. */
import type { Sandbox, SandboxState } from '../sandbox/row/sandbox.ts'

export const eventTypes = ['created', 'updated', 'paused', 'resumed', 'checkpointed', 'killed'] as const
export type EventType = (typeof eventTypes)[number]

export type LifecycleEvent = {
  eventID: string
  /** Counts the events of its sandbox from 1, without gaps: their order does not depend on a clock. */
  number: number
  type: EventType
  sandboxID: string
  teamID: string
  templateID: string
  buildID: string
  runID: string
  /** As it goes out; the names in it are the wire's. */
  data: Record<string, unknown>
  at: number
}

/** Which change of a row is told as which event. What is not here is no news for clients. */
const eventOfMoves: Partial<Record<`${SandboxState} ${SandboxState}`, EventType>> = {
  'creating running': 'created',
  'pausing paused': 'paused',
  'resuming running': 'resumed',
  'running killing': 'killed',
  'pausing killing': 'killed',
  'paused killing': 'killed',
  'snapshotting killing': 'killed',
  'resuming killing': 'killed',
}

/** A sandbox that ends while it is created was never there for its team, so its end is no event. */
export function eventOfMove(from: SandboxState, to: SandboxState): EventType | undefined {
  return eventOfMoves[`${from} ${to}`]
}

/** What happened, beside what the row of the sandbox says. */
export type EventCause = {
  type: EventType
  /** The state it happened in. */
  from: SandboxState
  at: number
  /** For `updated`: what was changed. */
  changed?: 'timeout' | 'network'
}

export function eventData(sandbox: Sandbox, cause: EventCause): Record<string, unknown> {
  const { metadata, endAt, endReason } = sandbox
  const { type, changed } = cause
  return {
    sandbox_metadata: metadata,
    ...(changed === 'timeout' && { set_timeout: new Date(endAt).toISOString() }),
    // Which hosts it may reach is not told: rules may hold credentials.
    ...(changed === 'network' && { set_network: true }),
    ...((type === 'paused' || type === 'killed') && executionOf(sandbox, cause)),
    ...(type === 'killed' && { reason: endReason }),
  }
}

/** What the run that ends here used. A sandbox that ends while it is paused has told that before. */
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
