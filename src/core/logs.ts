/** What happened in a sandbox, as it can be read afterwards. */
export const logLevels = ['debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof logLevels)[number]

export type LogEntry = {
  at: number
  level: LogLevel
  message: string
  fields: Record<string, string>
}

/**
 * As the agent numbers them: what was read once is not asked for again after a restart. What the control plane
 * itself tells has the number 0.
 */
export type NumberedLogEntry = LogEntry & { sequence: number }

export type LogQuery = {
  /** Inclusive. */
  from?: number
  /** Exclusive. */
  before?: number
  direction: 'forward' | 'backward'
  limit: number
  /** This level and the graver ones. */
  level?: LogLevel
  /** A case-sensitive part of the message. */
  search?: string
}

export interface LogStore {
  /** Bounded: the oldest entries of a sandbox are dropped first, then the logs of the longest silent sandboxes. */
  append(sandboxID: string, entries: readonly NumberedLogEntry[]): Promise<void>
  read(sandboxID: string, query: LogQuery): Promise<LogEntry[]>
  /** As many of the newest entries as take no more than so many bytes, the oldest of them first. */
  newest(sandboxID: string, mostBytes: number): Promise<NumberedLogEntry[]>
  /** The number of the last entry that came from the agent; 0 when there is none. */
  lastSequence(sandboxID: string): Promise<number>
  /** Forgets the logs that were last written before this time. */
  prune(before: number): Promise<void>
}

/** Entries of this level and the graver ones; all of them without a level. */
export function atLeast(entries: readonly LogEntry[], level: LogLevel | undefined): LogEntry[] {
  return entries.filter((entry) => matches(entry, { ...(level && { level }) }))
}

export function matches(entry: LogEntry, { from, before, level, search }: Partial<LogQuery>): boolean {
  return (
    (from === undefined || entry.at >= from) &&
    (before === undefined || entry.at < before) &&
    (level === undefined || logLevels.indexOf(entry.level) >= logLevels.indexOf(level)) &&
    (search === undefined || entry.message.includes(search))
  )
}
