/** The stored events of a team's sandboxes. */
import type { EventType, LifecycleEvent } from './event.ts'

export type EventFilter = { teamID: string; sandboxID?: string; types?: readonly EventType[] }

export type EventPage = { order: 'asc' | 'desc'; offset: number; limit: number }

/** The `SandboxStore` writes events, in one transaction with the changes that they report. */
export interface EventStore {
  /** Events of one sandbox are ordered by number, events of a team by time. */
  list(filter: EventFilter, page: EventPage): Promise<LifecycleEvent[]>
  /** Removes events from before `before`, and all but the newest `maxPerTeam` of each team. */
  prune(before: number, maxPerTeam: number): Promise<void>
}
