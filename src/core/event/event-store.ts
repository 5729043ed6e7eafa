/** What is remembered of the events of a team's sandboxes. */
import type { EventType, LifecycleEvent } from './event.ts'

export type EventFilter = { teamID: string; sandboxID?: string; types?: readonly EventType[] }

export type EventPage = { order: 'asc' | 'desc'; offset: number; limit: number }

/** Events are written by the `SandboxStore`, with the changes that they tell. */
export interface EventStore {
  /** Those of one sandbox in their order, those of a team by their time. */
  list(filter: EventFilter, page: EventPage): Promise<LifecycleEvent[]>
  /** Forgets those from before `before`, and of each team all but the newest so many. */
  prune(before: number, mostPerTeam: number): Promise<void>
}
