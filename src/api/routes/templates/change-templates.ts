import { Type } from 'typebox'
import { TemplatePath } from '../../../contract/rest/lifecycle.ts'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import {
  AssignedTags,
  AssignTags,
  Names,
  PatchTemplate,
  RemoveTags,
  TagList,
} from '../../../contract/rest/template.ts'
import { fullName } from '../../../core/template/catalog.ts'
import type { Api, RouteContext } from '../../context.ts'
import { dateTime } from '../../present.ts'

export function changeTemplatesRoutes(app: Api, context: RouteContext): void {
  const schema = { tags: ['templates'], security: [{ ApiKeyAuth: [] }] }
  const onRequest = context.auth.requireTeam

  app.patch(
    '/v2/templates/:templateID',
    {
      onRequest,
      schema: {
        ...schema,
        summary: 'Make a template public or private',
        params: TemplatePath,
        body: PatchTemplate,
        response: { 200: Names, ...failures },
      },
    },
    async (request) => {
      const { templateID } = request.params
      const team = context.auth.teamOf(request)
      const names = await context.templates.setPublic(team, templateID, request.body?.public, false)
      return { names: names.map(fullName) }
    },
  )

  app.patch(
    '/templates/:templateID',
    {
      onRequest,
      schema: {
        ...schema,
        summary: 'Make a template public or private; public ones are known without a namespace',
        deprecated: true,
        params: TemplatePath,
        body: PatchTemplate,
        response: { 200: Empty, ...failures },
      },
    },
    async (request, reply) => {
      const { templateID } = request.params
      await context.templates.setPublic(context.auth.teamOf(request), templateID, request.body?.public, true)
      return reply.code(200).send(undefined)
    },
  )

  app.post(
    '/templates/tags',
    {
      onRequest,
      schema: {
        ...schema,
        summary: 'Give tags to a build of a template',
        body: AssignTags,
        response: { 201: AssignedTags, ...failures },
      },
    },
    async (request, reply) => {
      const { target, tags } = request.body
      const assigned = await context.templates.assignTags(context.auth.teamOf(request), target, tags)
      return reply.code(201).send(assigned)
    },
  )

  app.delete(
    '/templates/tags',
    {
      onRequest,
      schema: {
        ...schema,
        summary: 'Take tags from a template',
        body: RemoveTags,
        response: { 204: Empty, ...failures },
      },
    },
    async (request, reply) => {
      const { name, tags } = request.body
      await context.templates.removeTags(context.auth.teamOf(request), name, tags)
      return reply.code(204).send(null)
    },
  )

  app.get(
    '/templates/:templateID/tags',
    {
      onRequest,
      schema: {
        ...schema,
        summary: 'List the tags of a template',
        params: Type.Object({ templateID: Type.String() }),
        response: { 200: TagList, ...failures },
      },
    },
    async (request) => {
      const tags = await context.templates.listTags(context.auth.teamOf(request), request.params.templateID)
      return tags.map(({ tag, buildID, assignedAt }) => ({ tag, buildID, createdAt: dateTime(assignedAt) }))
    },
  )
}
