import { SandboxPath, SetTimeout } from '../../../contract/rest/sandbox.ts'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { parseSandboxID } from '../../sandbox-id.ts'
import { sandboxSchema } from './sandbox-schema.ts'

export function setSandboxTimeoutRoute(app: Api, context: RouteContext): void {
  app.post(
    '/sandboxes/:sandboxID/timeout',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...sandboxSchema,
        summary: 'Set the timeout of a sandbox, in seconds from now',
        params: SandboxPath,
        body: SetTimeout,
        response: { 204: Empty, ...failures },
      },
    },
    async (request, reply) => {
      const sandboxID = parseSandboxID(request.params.sandboxID)
      const timeoutMs = request.body.timeout * 1000
      await context.sandboxes.setTimeout(context.auth.teamOf(request), sandboxID, timeoutMs)
      return reply.code(204).send(null)
    },
  )
}
