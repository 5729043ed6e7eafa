import { SandboxDetail, SandboxPath } from '../../../contract/rest/sandbox.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentDetail, tokensFor } from '../../present.ts'
import { parseSandboxID } from '../../sandbox-id.ts'
import { sandboxSchema } from './sandbox-schema.ts'

export function getSandboxRoute(app: Api, context: RouteContext): void {
  app.get(
    '/sandboxes/:sandboxID',
    {
      onRequest: context.auth.requireTeam,
      config: { answeredByAny: true },
      schema: {
        ...sandboxSchema,
        summary: 'Read a sandbox',
        params: SandboxPath,
        response: { 200: SandboxDetail, ...failures },
      },
    },
    async (request) => {
      const sandboxID = parseSandboxID(request.params.sandboxID)
      const sandbox = await context.sandboxes.show(context.auth.teamOf(request), sandboxID)
      const tokens = tokensFor(context, request)
      return presentDetail(sandbox, { ...context, tokens }, request)
    },
  )
}
