/** What the tags of a template have meant, for dashboards of E2B. */
import { type Static, Type } from 'typebox'
import { DateTime } from './shared.ts'

const Assignment = Type.Object({
  assignmentId: Type.String(),
  buildId: Type.String(),
  assignedAt: DateTime,
  buildCreatedAt: DateTime,
  buildFinishedAt: Type.Union([DateTime, Type.Null()]),
})
export type Assignment = Static<typeof Assignment>
const NextCursor = Type.Union([Type.String(), Type.Null()])

export const TemplateTagPath = Type.Object({ templateID: Type.String(), tag: Type.String() })
export const TagCount = Type.Object({ total: Type.Integer() })
export const TagQuery = Type.Object({ tag: Type.String() })
export const TagExistence = Type.Object({ exists: Type.Boolean(), normalizedTag: Type.String() })
export const TagGroupsQuery = Type.Object({
  assignmentLimit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
  tagsLimit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
  tagsCursor: Type.Optional(Type.String()),
  search: Type.Optional(Type.String({ maxLength: 128, description: "A part of a tag's name" })),
  sort: Type.Optional(Type.Enum(['latest_desc', 'latest_asc', 'name_asc', 'name_desc'])),
})
export const TagGroups = Type.Object({
  tags: Type.Array(
    Type.Object({ tag: Type.String(), assignments: Type.Array(Assignment), hasMore: Type.Boolean() }),
  ),
  nextCursor: NextCursor,
})
export const AssignmentsQuery = Type.Object({
  cursor: Type.Optional(Type.String()),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
})
export const AssignmentPage = Type.Object({ data: Type.Array(Assignment), nextCursor: NextCursor })
