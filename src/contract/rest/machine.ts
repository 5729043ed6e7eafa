/** How the server does, for its operator. */
import { type Static, Type } from 'typebox'
import { DateTime } from './shared.ts'

const Milliseconds = Type.Union([Type.Number(), Type.Null()], {
  description: 'Null: no create has succeeded yet',
})

export const MachineReport = Type.Object({
  version: Type.String(),
  startedAt: DateTime,
  isolation: Type.String({ description: 'Its name in the settings' }),
  isolationLabel: Type.String({ description: 'Its name for people' }),
  sandboxes: Type.Record(Type.String(), Type.Integer(), { description: 'How many are in each state' }),
  warmPool: Type.Object({ ready: Type.Integer(), booting: Type.Integer() }),
  creates: Type.Object(
    {
      perSecond: Type.Number({ description: 'Of the last minute' }),
      succeeded: Type.Integer(),
      failed: Type.Integer(),
      p50Ms: Milliseconds,
      p99Ms: Milliseconds,
    },
    { description: 'The last thousand creates of this server' },
  ),
  objectStore: Type.Optional(
    Type.Object(
      {
        waitingTemplates: Type.Integer(),
        waitingSandboxes: Type.Integer({ description: 'Paused sandboxes' }),
        onlyHere: Type.Integer({ description: 'How many of these only this machine can use' }),
      },
      { description: 'What of this node the object store does not have yet. Absent without an object store' },
    ),
  ),
  problems: Type.Array(
    Type.Object({
      at: DateTime,
      level: Type.Enum(['warn', 'error']),
      message: Type.String({ description: 'What happened, and where it is known what to do' }),
      cause: Type.Union([Type.String(), Type.Null()]),
      count: Type.Integer({ description: 'How often it was told in a row' }),
    }),
    { description: 'The last warnings and errors of the server, the newest first' },
  ),
})
export type MachineReport = Static<typeof MachineReport>

export const DoctorReport = Type.Object({
  examinedAt: DateTime,
  canRun: Type.Boolean(),
  checks: Type.Array(
    Type.Object({
      name: Type.String(),
      status: Type.Enum(['ok', 'warn', 'fail']),
      text: Type.String(),
      remedy: Type.Optional(Type.String()),
    }),
  ),
})
export type DoctorReport = Static<typeof DoctorReport>
