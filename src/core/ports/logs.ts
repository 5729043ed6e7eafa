/** The log of a sandbox, as it can be read afterwards. */
const logLevels = ['debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof logLevels)[number]

export type LogEntry = {
  at: number
  level: LogLevel
  message: string
  fields: Record<string, string>
}

/**
 * A log entry with the agent's number, so that entries are not read twice after a restart. Entries of the
 * control plane have the number 0.
 */
export type NumberedLogEntry = LogEntry & { sequence: number }

/** The latest time that a JavaScript date can represent, in milliseconds. */
const latestTime = 8_640_000_000_000_000
const maxFields = 32

/** Parses a line of JSON that a sandbox or another machine wrote. Undefined if it is not a log entry. */
export function parseLogEntry(line: string): NumberedLogEntry | undefined {
  const { sequence, at, level, message, fields } = parseObject(line)
  const isEntry =
    isWhole(sequence, Number.MAX_SAFE_INTEGER) &&
    isWhole(at, latestTime) &&
    isLevel(level) &&
    typeof message === 'string' &&
    isTextMap(fields)
  return isEntry ? { sequence, at, level, message, fields } : undefined
}

function parseObject(line: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line)
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  } catch {}
  return {}
}

function isWhole(value: unknown, largest: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= largest
}

function isLevel(value: unknown): value is LogLevel {
  return logLevels.some((level) => level === value)
}

function isTextMap(value: unknown): value is Record<string, string> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const texts = Object.values(value)
  return texts.length <= maxFields && texts.every((text) => typeof text === 'string')
}

export type LogQuery = {
  /** Inclusive. */
  from?: number
  /** Exclusive. */
  before?: number
  direction: 'forward' | 'backward'
  limit: number
  /** Selects this level and the more severe ones. */
  level?: LogLevel
  /** A case-sensitive part of the message. */
  search?: string
}

export interface LogStore {
  /**
   * Limits the size: drops the oldest entries of a sandbox first, then the logs of the sandboxes that were
   * silent longest.
   */
  append(sandboxID: string, entries: readonly NumberedLogEntry[]): Promise<void>
  read(sandboxID: string, query: LogQuery): Promise<LogEntry[]>
  /** Returns the newest entries that together take at most `maxBytes`, the oldest of them first. */
  newest(sandboxID: string, maxBytes: number): Promise<NumberedLogEntry[]>
  /** The number of the last entry from the agent; 0 if there is none. */
  lastSequence(sandboxID: string): Promise<number>
  /** Removes logs that were last written before this time. */
  prune(before: number): Promise<void>
}

/** Returns the entries of this level and the more severe ones, or all entries without a level. */
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
