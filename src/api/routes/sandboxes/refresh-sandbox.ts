import { Refresh, SandboxPath } from '../../../contract/rest/sandbox.ts'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { parseSandboxID } from '../../sandbox-id.ts'
import { sandboxSchema } from './sandbox-schema.ts'

export function refreshSandboxRoute(app: Api, context: RouteContext): void {
  app.post(
    '/sandboxes/:sandboxID/refreshes',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...sandboxSchema,
        summary: 'Extend the timeout of a sandbox to at least the given seconds from now',
        params: SandboxPath,
        body: Refresh,
        response: { 204: Empty, ...failures },
      },
    },
    async (request, reply) => {
      const sandboxID = parseSandboxID(request.params.sandboxID)
      const durationMs = (request.body?.duration ?? 0) * 1000
      await context.sandboxes.refresh(context.auth.teamOf(request), sandboxID, durationMs)
      return reply.code(204).send(null)
    },
  )
}
