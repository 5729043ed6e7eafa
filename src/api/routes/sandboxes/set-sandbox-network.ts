import { NetworkUpdate, SandboxPath } from '../../../contract/rest/sandbox.ts'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { parseSandboxID } from '../../sandbox-id.ts'
import { sandboxSchema } from './sandbox-schema.ts'

export function setSandboxNetworkRoute(app: Api, context: RouteContext): void {
  app.put(
    '/sandboxes/:sandboxID/network',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...sandboxSchema,
        summary: 'Replace the egress policy of a running sandbox; options that are not given are cleared',
        params: SandboxPath,
        body: NetworkUpdate,
        response: { 204: Empty, ...failures },
      },
    },
    async (request, reply) => {
      const sandboxID = parseSandboxID(request.params.sandboxID)
      const { allow_internet_access: allowInternetAccess = null, ...egress } = request.body
      const update = { ...egress, allowInternetAccess }
      await context.sandboxes.setNetwork(context.auth.teamOf(request), sandboxID, update)
      return reply.code(204).send(null)
    },
  )
}
