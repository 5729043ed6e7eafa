import { SandboxPath } from '../../../contract/rest/sandbox.ts'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { parseSandboxID } from '../../sandbox-id.ts'

export function killSandboxRoute(app: Api, context: RouteContext): void {
  app.delete(
    '/sandboxes/:sandboxID',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        summary: 'Kill a sandbox',
        tags: ['sandboxes'],
        security: [{ ApiKeyAuth: [] }],
        params: SandboxPath,
        response: { 204: Empty, ...failures },
      },
    },
    async (request, reply) => {
      const sandboxID = parseSandboxID(request.params.sandboxID)
      await context.sandboxes.kill(context.auth.teamOf(request), sandboxID)
      return reply.code(204).send(null)
    },
  )
}
