import { NewTemplateV1 } from '../../../contract/rest/template.ts'
import { tagsOf } from '../../../core/template/build-service.ts'
import { defaultTag } from '../../../core/template/reference.ts'
import type { Api, RouteContext } from '../../context.ts'
import { dockerfileSchema, requestFromDockerfile } from './dockerfile-request.ts'
import { nameOf } from './template-request.ts'

export function requestTemplateV1Route(app: Api, context: RouteContext): void {
  app.post(
    '/templates',
    {
      onRequest: context.auth.requireTeam,
      schema: { ...dockerfileSchema, summary: 'Request a build from a Dockerfile', body: NewTemplateV1 },
    },
    async (request, reply) => {
      const team = context.auth.teamOf(request)
      const name = request.body.alias === undefined ? undefined : nameOf(team, request.body.alias)
      const wanted = name
        ? { target: name, tags: tagsOf(name, []) }
        : { target: { unnamed: true as const }, tags: [defaultTag] }
      return reply.code(202).send(await requestFromDockerfile(context, team, wanted, request.body))
    },
  )
}
