/** The result of pruning in the operator's API. */
import { type Static, Type } from 'typebox'

const Freed = Type.Object({ count: Type.Integer(), bytes: Type.Integer() })

/** A misspelt wish to only look must not remove anything. */
export const PruneRequest = Type.Object(
  { dryRun: Type.Optional(Type.Boolean()) },
  { additionalProperties: false },
)

export const PruneReport = Type.Object({
  dryRun: Type.Boolean(),
  steps: Freed,
  savedStates: Freed,
  layers: Freed,
  files: Freed,
  bytes: Type.Integer(),
  missingNodes: Type.Optional(
    Type.Array(Type.String(), { description: 'Nodes that are away or failed: nothing of theirs is counted' }),
  ),
})
export type PruneReport = Static<typeof PruneReport>
