import { TemplatePath } from '../../../contract/rest/lifecycle.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { TagGroups, TagGroupsQuery } from '../../../contract/rest/tag-history.ts'
import { pageOfTags } from '../../../core/template/tag-history.ts'
import type { Api, RouteContext } from '../../context.ts'
import { decodeTagCursor, encodeTagCursor, presentAssignment } from './tag-cursor.ts'
import { templateSchema } from './template-schema.ts'

export function listTagGroupsRoute(app: Api, context: RouteContext): void {
  app.get(
    '/templates/:templateID/tags/groups',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'List tags with their newest assignments, page by page',
        params: TemplatePath,
        querystring: TagGroupsQuery,
        response: { 200: TagGroups, ...failures },
      },
    },
    async (request) => {
      const { templateID } = request.params
      const {
        assignmentLimit = 6,
        tagsLimit = 25,
        tagsCursor,
        search = '',
        sort = 'latest_desc',
      } = request.query
      const after = tagsCursor ? decodeTagCursor(tagsCursor, sort) : undefined
      const found = await context.templates.listReadyAssignments(context.auth.teamOf(request), templateID)
      const limits = { maxTags: tagsLimit, maxAssignments: assignmentLimit }
      const { groups, last } = pageOfTags(found, { order: sort, search, ...limits, ...(after && { after }) })
      return {
        tags: groups.map(({ tag, assignments, hasMore }) => ({
          tag,
          assignments: assignments.map(presentAssignment),
          hasMore,
        })),
        nextCursor: last ? encodeTagCursor(last, sort) : null,
      }
    },
  )
}
