/** Logs of sandboxes on the wire. */
import { type Static, Type } from 'typebox'
import { DateTime, int64Max } from './shared.ts'

export const Milliseconds = Type.Integer({
  minimum: 0,
  maximum: int64Max,
  description: 'Milliseconds since 1970',
})

export const LogLevel = Type.Enum(['debug', 'info', 'warn', 'error'])

export const SandboxLogEntry = Type.Object({
  timestamp: DateTime,
  message: Type.String(),
  level: LogLevel,
  fields: Type.Record(Type.String(), Type.String()),
})
export type SandboxLogEntry = Static<typeof SandboxLogEntry>

export const LogsQueryV1 = Type.Object({
  start: Type.Optional(Milliseconds),
  limit: Type.Optional(Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1, default: 1000 })),
})

export const SandboxLogs = Type.Object({
  logs: Type.Array(
    Type.Object({ timestamp: DateTime, line: Type.String({ description: 'A JSON document' }) }),
  ),
  logEntries: Type.Array(SandboxLogEntry),
})
export type SandboxLogs = Static<typeof SandboxLogs>

export const LogsQueryV2 = Type.Object({
  cursor: Type.Optional(Milliseconds),
  limit: Type.Optional(Type.Integer({ minimum: 0, maximum: 1000, default: 1000 })),
  direction: Type.Optional(Type.Enum(['forward', 'backward'])),
  level: Type.Optional(LogLevel),
  search: Type.Optional(Type.String({ maxLength: 256 })),
})

export const SandboxLogsV2 = Type.Object({ logs: Type.Array(SandboxLogEntry) })
