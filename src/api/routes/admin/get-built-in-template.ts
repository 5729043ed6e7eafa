import { BuiltInPath } from '../../../contract/rest/built-in.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { BuildStatusAnswer, StatusQuery } from '../../../contract/rest/template.ts'
import { passOnToItsNode } from '../../built-in-node.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentProgress } from '../../present-template.ts'
import { adminSchema } from './admin-schema.ts'

export function getBuiltInTemplateRoute(app: Api, context: RouteContext): void {
  const { auth, builtIns } = context
  app.get(
    '/admin/built-in-templates/:name',
    {
      onRequest: [auth.requireAdmin, passOnToItsNode(context)],
      schema: {
        ...adminSchema,
        summary: "Read the progress of a built-in template's build, and its log lines from an offset on",
        params: BuiltInPath,
        querystring: StatusQuery,
        response: { 200: BuildStatusAnswer, ...failures },
      },
    },
    async (request) => presentProgress(await builtIns.progress(request.params.name), request.query),
  )
}
