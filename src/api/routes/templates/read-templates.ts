import { Type } from 'typebox'
import { header } from '../../../contract/constants.ts'
import { TemplatePath } from '../../../contract/rest/lifecycle.ts'
import { failures } from '../../../contract/rest/shared.ts'
import {
  AliasAnswer,
  AliasPath,
  PageQuery,
  Template,
  TemplatesQuery,
  TemplateWithBuilds,
} from '../../../contract/rest/template.ts'
import type { Team } from '../../../core/team/team.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { cutPage, decodeCursor, encodeCursor } from '../../paging.ts'
import { presentBuild, presentTemplate } from '../../present-template.ts'

const defaultLimit = 100
/** The unpaged list of old clients. */
const unpagedLimit = 5000

export function readTemplatesRoutes(app: Api, context: RouteContext): void {
  const schema = { tags: ['templates'], security: [{ ApiKeyAuth: [] }] }
  const teamOf = (request: { query: { teamID?: string } }): Team => {
    const team = context.auth.teamOf(request as never)
    const { teamID } = request.query
    if (teamID !== undefined && teamID !== team.teamID && teamID !== team.slug) {
      throw new AppError('permission_denied', 'The key belongs to another team')
    }
    return team
  }

  app.get(
    '/templates',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...schema,
        summary: 'List the templates of the team',
        deprecated: true,
        querystring: Type.Pick(TemplatesQuery, ['teamID']),
        response: { 200: Type.Array(Template), ...failures },
      },
    },
    async (request) => {
      const all = await context.templates.list(teamOf(request), { order: 'asc', limit: unpagedLimit + 1 })
      if (all.length > unpagedLimit) {
        throw new AppError(
          'invalid_argument',
          `More than ${unpagedLimit} templates: use /v2/templates, which pages`,
        )
      }
      return all.map(presentTemplate)
    },
  )

  app.get(
    '/v2/templates',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...schema,
        summary: 'List the templates of the team, newest first, page by page',
        querystring: TemplatesQuery,
        response: { 200: Type.Array(Template), ...failures },
      },
    },
    async (request, reply) => {
      const { limit = defaultLimit, nextToken } = request.query
      const cursor = nextToken ? decodeCursor(nextToken, 'desc') : undefined
      const after = cursor && { after: { createdAt: cursor.at, templateID: cursor.id } }
      const rows = await context.templates.list(teamOf(request), {
        order: 'desc',
        limit: limit + 1,
        ...after,
      })
      const { page, last } = cutPage(rows, limit)
      if (last) {
        const { createdAt, templateID } = last.template
        reply.header(header.nextToken, encodeCursor({ at: createdAt, id: templateID }, 'desc'))
      }
      return page.map(presentTemplate)
    },
  )

  app.get(
    '/templates/:templateID',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...schema,
        summary: 'Read a template with its builds, newest first, page by page',
        params: TemplatePath,
        querystring: PageQuery,
        response: { 200: TemplateWithBuilds, ...failures },
      },
    },
    async (request, reply) => {
      const { limit = defaultLimit, nextToken } = request.query
      const cursor = nextToken ? decodeCursor(nextToken, 'desc') : undefined
      const after = cursor && { after: { createdAt: cursor.at, buildID: cursor.id } }
      const { summary, builds } = await context.templates.read(
        context.auth.teamOf(request),
        request.params.templateID,
        { limit: limit + 1, ...after },
      )
      const { page, last } = cutPage(builds, limit)
      if (last) reply.header(header.nextToken, encodeCursor({ at: last.createdAt, id: last.buildID }, 'desc'))
      return { ...presentTemplate(summary), builds: page.map(presentBuild) }
    },
  )

  app.get(
    '/templates/aliases/:alias',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...schema,
        summary: 'Find out whether a name is taken, and by which template',
        params: AliasPath,
        response: { 200: AliasAnswer, ...failures },
      },
    },
    async (request) => {
      const found = await context.templates.lookUp(context.auth.teamOf(request), request.params.alias)
      return { templateID: found.templateID, public: found.public }
    },
  )
}
