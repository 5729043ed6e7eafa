import { BuiltInAnswer, BuiltInPath, BuiltInRequest } from '../../../contract/rest/built-in.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { passOnToItsNode } from '../../built-in-node.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from './admin-schema.ts'

export function addBuiltInTemplateRoute(app: Api, context: RouteContext): void {
  const { auth, builtIns } = context
  app.post(
    '/admin/built-in-templates/:name',
    {
      onRequest: [auth.requireAdmin, passOnToItsNode(context)],
      schema: {
        ...adminSchema,
        summary: 'Build a built-in template of Warren',
        params: BuiltInPath,
        body: BuiltInRequest,
        response: { 202: BuiltInAnswer, ...failures },
      },
    },
    async (request, reply) => {
      const { templateID, buildID } = await builtIns.make(request.params.name, {
        full: request.body.full ?? false,
      })
      const note = builtIns.noteOf(request.params.name)
      return reply.code(202).send({ templateID, buildID, ...(note !== undefined && { note }) })
    },
  )
}
