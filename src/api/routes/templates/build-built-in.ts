import { BuiltInAnswer, BuiltInPath } from '../../../contract/rest/built-in.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { passOnToItsNode } from '../../built-in-node.ts'
import type { Api, RouteContext } from '../../context.ts'
import { templateSchema } from './template-schema.ts'

export function buildBuiltInRoute(app: Api, context: RouteContext): void {
  const { auth, builtIns } = context
  app.post(
    '/built-in-templates/:name',
    {
      onRequest: [auth.requireTeam, passOnToItsNode(context)],
      schema: {
        ...templateSchema,
        summary: 'Build a built-in template that is not built yet, as its first use would',
        params: BuiltInPath,
        response: { 202: BuiltInAnswer, ...failures },
      },
    },
    async (request, reply) => reply.code(202).send(await builtIns.makeMissing(request.params.name)),
  )
}
