/** What each team uses of a machine, and what the guards of the machine did, for the operator. */
import { type Static, Type } from 'typebox'
import { DateTime } from './shared.ts'

const ResourceShares = Type.Object({
  freeBytes: Type.Integer({ description: 'What can still be used' }),
  startBytes: Type.Integer({
    description: 'With less than this free, teams above their share start nothing. 0: nobody watches this',
  }),
  teams: Type.Array(
    Type.Object({
      teamID: Type.String(),
      usedBytes: Type.Integer(),
      fairBytes: Type.Integer({
        description: 'An equal part. Who uses no more is not touched for another team’s sake',
      }),
      aboveBytes: Type.Integer({ description: 'What the team has to give back now' }),
    }),
    { description: 'Teams that use something here: who has to give back most first, then who uses most' },
  ),
})
export type ResourceShares = Static<typeof ResourceShares>

const NodeShares = Type.Object({
  nodeID: Type.String(),
  memory: ResourceShares,
  disk: ResourceShares,
  connections: Type.Optional(
    Type.Object(
      {
        count: Type.Integer(),
        max: Type.Integer(),
        perTeam: Type.Optional(Type.Integer({ description: 'How many the sandboxes of a team may open' })),
        teams: Type.Optional(
          Type.Array(Type.Object({ teamID: Type.String(), count: Type.Integer() }), {
            description:
              'Opened by sandboxes of the team, also those that are closing. Who has most comes first',
          }),
        ),
      },
      { description: 'In the kernel’s table, of sandboxes and everything else. Absent: it counts none yet' },
    ),
  ),
  frozen: Type.Array(
    Type.Object({
      sandboxID: Type.String(),
      teamID: Type.Union([Type.String(), Type.Null()], { description: 'Null: not known yet' }),
      guard: Type.Enum(['memory', 'disk']),
      since: DateTime,
    }),
    { description: 'Sandboxes that a guard keeps frozen now' },
  ),
  acts: Type.Array(
    Type.Object({
      guard: Type.Enum(['memory', 'disk', 'starts']),
      act: Type.Enum(['frozen', 'continued', 'paused', 'ended', 'refused']),
      sandboxID: Type.Optional(Type.String({ description: 'Absent: a request was refused' })),
      teamID: Type.String(),
      why: Type.String({ description: 'A sentence; of the last time' }),
      firstAt: DateTime,
      lastAt: DateTime,
      count: Type.Integer({ description: 'How often the guard did the same to the same' }),
    }),
    { description: 'The last acts of the guards since the server started, the latest first, at most 200' },
  ),
})
export type NodeShares = Static<typeof NodeShares>

export const SharesReport = Type.Object({
  nodes: Type.Array(NodeShares, { description: 'The machine that answers comes first' }),
  missingNodes: Type.Optional(
    Type.Array(Type.String(), { description: 'IDs of machines that did not answer' }),
  ),
})
export type SharesReport = Static<typeof SharesReport>
