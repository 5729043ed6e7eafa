import { SandboxPath } from '../../../contract/rest/sandbox.ts'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { parseSandboxID } from '../../sandbox-id.ts'
import { sandboxSchema } from './sandbox-schema.ts'

export function killSandboxRoute(app: Api, context: RouteContext): void {
  app.delete(
    '/sandboxes/:sandboxID',
    {
      onRequest: context.auth.requireTeam,
      config: { worksWithoutMemory: true },
      schema: {
        ...sandboxSchema,
        summary: 'Kill a sandbox',
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
