/** Snapshots in quarantine, as the operator's own surface shows them. */
import { type Static, Type } from 'typebox'

export const QuarantinePath = Type.Object({ snapshotName: Type.String() })

export const QuarantineEntry = Type.Object({
  snapshotName: Type.String(),
  /** Null: the sandbox of the snapshot is unknown. */
  sandboxID: Type.Union([Type.String(), Type.Null()]),
  reason: Type.String(),
  since: Type.String({ format: 'date-time' }),
  deletedAt: Type.String({ format: 'date-time' }),
})
export type QuarantineEntry = Static<typeof QuarantineEntry>

export const RecoveredSandbox = Type.Object({ sandboxID: Type.String(), teamID: Type.String() })
export type RecoveredSandbox = Static<typeof RecoveredSandbox>
