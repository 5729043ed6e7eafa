import { Pause } from '../../../contract/rest/lifecycle.ts'
import { SandboxPath } from '../../../contract/rest/sandbox.ts'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { parseSandboxID } from '../../sandbox-id.ts'
import { sandboxSchema } from './sandbox-schema.ts'

export function pauseSandboxRoute(app: Api, context: RouteContext): void {
  app.post(
    '/sandboxes/:sandboxID/pause',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...sandboxSchema,
        summary: 'Pause a sandbox with a snapshot of its memory and files, or of its files only',
        params: SandboxPath,
        body: Pause,
        response: { 204: Empty, ...failures },
      },
    },
    async (request, reply) => {
      const sandboxID = parseSandboxID(request.params.sandboxID)
      await context.sandboxes.pause(context.auth.teamOf(request), sandboxID, {
        memory: request.body?.memory ?? true,
        requireHealthyAgent: request.body?.requireHealthyGuest ?? false,
      })
      return reply.code(204).send(null)
    },
  )
}
