import { failures } from '../../../contract/rest/shared.ts'
import { AssignmentPage, AssignmentsQuery, TemplateTagPath } from '../../../contract/rest/tag-history.ts'
import { parseTag } from '../../../core/template/reference.ts'
import type { Api, RouteContext } from '../../context.ts'
import { cutPage } from '../../paging.ts'
import { decodeTagCursor, encodeTagCursor, presentAssignment } from './tag-cursor.ts'
import { templateSchema } from './template-schema.ts'

const order = 'assignments'

export function listTagAssignmentsRoute(app: Api, context: RouteContext): void {
  app.get(
    '/templates/:templateID/tags/:tag/assignments',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'List the builds that a tag has meant, newest first, page by page',
        params: TemplateTagPath,
        querystring: AssignmentsQuery,
        response: { 200: AssignmentPage, ...failures },
      },
    },
    async (request) => {
      const { templateID } = request.params
      const { limit = 50, cursor } = request.query
      const tag = parseTag(request.params.tag)
      const after = cursor ? decodeTagCursor(cursor, order).sequence : Number.POSITIVE_INFINITY
      const team = context.auth.teamOf(request)
      const found = await context.templates.listReadyAssignments(team, templateID, tag)
      const rest = found.filter(({ sequence }) => sequence < after)
      const { page, last } = cutPage(rest, limit)
      return {
        data: page.map(presentAssignment),
        nextCursor: last ? encodeTagCursor(last, order) : null,
      }
    },
  )
}
